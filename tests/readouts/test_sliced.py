"""FSW against its authors' library; quantiles against NumPy's."""

import numpy as np
import pytest
import torch

from permlab.readouts.catalogue import build

FSWEmbedding = pytest.importorskip("fswlib").FSWEmbedding


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_fsw_agrees_with_fswlib(n: int) -> None:
    ours = build("fsw", 3, 40, out_channels=65).double()
    theirs = FSWEmbedding(d_in=3, d_out=65, encode_total_mass=True, device="cpu", dtype=torch.float64)
    slices = {"slice_vectors": ours.slices.T, "frequencies": ours.frequencies}
    theirs.load_state_dict(theirs.state_dict() | slices)
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    torch.testing.assert_close(ours(x)[0], theirs(x), rtol=1e-5, atol=1e-5)


def test_frequencies_have_the_papers_density() -> None:
    """P(ξ ≤ t) = t/(1 + t)."""
    xi = build("fsw", 1, 4000).frequencies
    for t in (0.5, 1.0, 3.0):
        assert float((xi <= t).double().mean()) == pytest.approx(t / (1 + t), abs=0.02)


def test_pswe_interpolates_quantiles() -> None:
    readout = build("pswe", 2, 50, ranks=7).double()
    x = torch.randn(23, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    columns = (x @ (readout.slices / readout.slices.norm(dim=0))).detach().numpy()
    expected = np.quantile(columns, np.linspace(0, 1, 7), axis=0) - readout.reference_values.detach().numpy()
    np.testing.assert_allclose(readout(x).detach().numpy()[0], expected.reshape(-1), rtol=1e-10, atol=1e-12)


def test_fspool_with_equal_weights_is_the_sum_and_with_the_first_knot_the_maximum() -> None:
    readout = build("fspool", 3, 9).double().requires_grad_(False)
    x = torch.randn(9, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    readout.weight.fill_(1.0)
    torch.testing.assert_close(readout(x)[0], x.sum(0))
    readout.weight.zero_()[0] = 1.0
    torch.testing.assert_close(readout(x)[0], x.max(0).values)
