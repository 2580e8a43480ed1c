import torch
from torch_geometric.nn.aggr import SortAggregation, SumAggregation

from permlab.readouts.pooling import Identity, SortPooling, Sum

SIZES = (3, 1, 5)
INDEX = torch.repeat_interleave(torch.arange(3), torch.tensor(SIZES))


def sample() -> torch.Tensor:
    return torch.randn(sum(SIZES), 4, generator=torch.Generator().manual_seed(0))


def test_sort_pooling_agrees_with_pyg_without_ties() -> None:
    assert torch.equal(SortPooling(4, 6)(sample(), INDEX), SortAggregation(6)(sample(), INDEX))


def test_sort_pooling_breaks_ties_by_the_column_before() -> None:
    x = torch.tensor([[1.0, 5.0, 2.0], [9.0, 4.0, 2.0], [3.0, 5.0, 2.0], [0.0, 0.0, 3.0]])
    rows = SortPooling(3, 4).rows(x, torch.tensor([0, 4]))
    assert rows[:, 0].tolist() == [0, 3, 1, 9]


def test_sort_pooling_is_invariant_when_the_last_channel_is_dead() -> None:
    x = sample()
    x[:, -1] = 0
    flipped = torch.cat([block.flip(0) for block in x.split(SIZES)])
    assert torch.equal(SortPooling(4, 6)(x, INDEX), SortPooling(4, 6)(flipped, INDEX))


def test_sum_agrees_with_pyg() -> None:
    torch.testing.assert_close(Sum(4)(sample(), INDEX), SumAggregation()(sample(), INDEX))


def test_identity_keeps_the_rows_where_they_are() -> None:
    assert torch.equal(Identity(4, 9)(sample()).view(9, 4), sample())
