import pytest
import torch
from torch_geometric.nn.aggr import Set2Set as PyGSet2Set

from permlab.readouts.set2set import Set2Set


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_values_and_gradients_agree_with_pyg(steps: int) -> None:
    torch.manual_seed(steps)
    index = torch.tensor([0, 0, 1, 1, 1, 3])  # graph 2 is empty
    x, direction = (torch.randn(*shape, dtype=torch.float64) for shape in ((6, 3), (4, 6)))
    ours, theirs = Set2Set(3, steps=steps).double(), PyGSet2Set(3, processing_steps=steps).double()
    theirs.load_state_dict({f"lstm.{name}_l0": weight for name, weight in ours.lstm.state_dict().items()})
    results = []
    for readout in (ours, theirs):
        rows = x.clone().requires_grad_()
        out = readout(rows, index, dim_size=4)
        (out * direction).sum().backward()
        results.append([out, rows.grad, *(weight.grad for weight in readout.parameters())])
    torch.testing.assert_close(*results)


def test_building_one_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    Set2Set(3)
    assert torch.equal(torch.rand(1), expected)


def test_its_weights_are_trained() -> None:
    readout = Set2Set(3)
    readout(torch.randn(4, 3)).sum().backward()
    assert all(weight.grad is not None for weight in readout.parameters())
    assert len(list(readout.parameters())) == 4


@pytest.mark.parametrize("d, steps", [(1, 3), (3, 1), (20, 2), (150, 3)])
def test_single_precision_is_close_to_double(d: int, steps: int) -> None:
    torch.manual_seed(d)
    ptr = torch.tensor([0, 2, 2, 70])  # graph 1 is empty
    x, direction = torch.randn(70, d) * 2, torch.randn(3, 2 * d)
    single, double = Set2Set(d, steps=steps), Set2Set(d, steps=steps).double()
    results = []
    for readout, dtype in ((single, torch.float32), (double, torch.float64)):
        rows = x.to(dtype, copy=True).requires_grad_()
        out = readout(rows, ptr=ptr)
        gradients = torch.autograd.grad((out * direction).sum(), [rows, *readout.parameters()])
        results.append([tensor.detach().float() for tensor in (out, *gradients)])
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-4)
