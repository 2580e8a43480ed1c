import pytest
import torch
from torch_geometric.nn.aggr import Set2Set as PyGSet2Set

from permlab.readouts.set2set import Set2Set


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_it_is_pygs_with_its_gradients(steps: int) -> None:
    torch.manual_seed(steps)
    index = torch.tensor([0, 0, 1, 1, 1, 3])  # graph 2 is empty
    x, direction = (torch.randn(*shape, dtype=torch.float64) for shape in ((6, 3), (4, 6)))
    ours, theirs = Set2Set(3, steps=steps).double(), PyGSet2Set(3, processing_steps=steps).double()
    theirs.load_state_dict(ours.set2set.state_dict())
    found = []
    for readout in (ours, theirs):
        rows = x.clone().requires_grad_()
        out = readout(rows, index, dim_size=4)
        (out * direction).sum().backward()
        found.append([out, rows.grad, *(weight.grad for weight in readout.parameters())])
    torch.testing.assert_close(*found)


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
