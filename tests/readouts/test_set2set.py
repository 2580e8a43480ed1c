import torch
from torch_geometric.nn.aggr import Set2Set as PyGSet2Set

from permlab.readouts.set2set import Set2Set


def test_it_is_pygs() -> None:
    x, index = torch.randn(6, 3), torch.tensor([0, 0, 1, 1, 1, 3])
    ours, theirs = Set2Set(3, steps=4), PyGSet2Set(3, processing_steps=4)
    theirs.load_state_dict(ours.set2set.state_dict())
    torch.testing.assert_close(ours(x, index, dim_size=4), theirs(x, index, dim_size=4))


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
