"""Sampled pairs have the mean of all pairs, and evaluation is exact."""

import torch

from permlab.readouts.catalogue import build

PTR = torch.tensor([0, 4, 4, 5, 12])


def test_sampled_pairs_have_the_exact_mean() -> None:
    sampled = build("janossy", 2, 7, samples=500)
    exact = build("janossy", 2, 7)
    x = torch.randn(12, 2, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    torch.testing.assert_close(sampled(x, ptr=PTR), exact(x, ptr=PTR), rtol=0.1, atol=0.05)
    assert not torch.equal(sampled(x, ptr=PTR), exact(x, ptr=PTR))
    assert torch.equal(sampled.eval()(x, ptr=PTR), exact(x, ptr=PTR))


def test_a_node_is_never_its_own_partner() -> None:
    """With U = I, V = −I and two columns of different signs, only a pair (i, i) would give 0."""
    sampled = build("janossy", 2, 7, out_channels=2, samples=1)
    with torch.no_grad():
        for parameter, sign in ((sampled.first.weight, 1.0), (sampled.second.weight, -1.0)):
            parameter.copy_(sign * torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
        sampled.first.bias.zero_()
    x = torch.arange(5.0)[:, None].repeat(1, 2)
    for seed in range(50):
        torch.manual_seed(seed)
        assert float(sampled(x).detach().sum()) >= 1 - 1e-6  # the mean of |x_i − x_j| over partners j ≠ i
