"""The readouts written on padded tensors [B, N, d], and with PyG's own aggregations."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn.aggr import Set2Set, SortAggregation, SumAggregation
from torch_geometric.utils import to_dense_batch

Pool = Callable[[Tensor, Tensor], Tensor]  # x [n, d], index [n] ascending → [B, m]


def sorted_columns(x: Tensor, index: Tensor, max_nodes: int) -> Tensor:
    """Every column descending within every graph, zero-padded: [n, k] → [B, N·k]."""
    dense, mask = to_dense_batch(x, index, max_num_nodes=max_nodes)
    dense = dense.masked_fill(~mask[..., None], float("-inf")).sort(dim=1, descending=True).values
    return dense.masked_fill(~mask[..., None], 0.0).flatten(1)


def with_sum(x: Tensor) -> Tensor:
    """X [I | 1]."""
    return torch.cat([x, x.sum(1, keepdim=True)], dim=1)


def sorted_rows(x: Tensor, index: Tensor, max_nodes: int) -> Tensor:
    """Rows by their last column, descending, zero-padded."""
    dense, mask = to_dense_batch(x, index, max_num_nodes=max_nodes)
    order = dense[..., -1].masked_fill(~mask, float("-inf")).argsort(dim=1, descending=True)
    return dense.gather(1, order[..., None].expand_as(dense)).flatten(1)


def gaussians(x: Tensor, centres: Tensor) -> Tensor:
    """exp(−‖x/‖x‖ − a_j‖²)."""
    return torch.exp(-(torch.cdist(functional.normalize(x, dim=-1), centres) ** 2))


def dense_sum(x: Tensor, index: Tensor, max_nodes: int) -> Tensor:
    return to_dense_batch(x, index, max_num_nodes=max_nodes)[0].sum(1)


def dense_gaussians(x: Tensor, index: Tensor, max_nodes: int, centres: Tensor) -> Tensor:
    dense, mask = to_dense_batch(x, index, max_num_nodes=max_nodes)
    return (gaussians(dense, centres) * mask[..., None]).sum(1)


def set2set(ours: nn.Module) -> Set2Set:
    """PyG's Set2Set with our readout's weights; it has a one-layer LSTM where ours has an LSTM cell."""
    cell: Any = ours.get_submodule("lstm")
    aggregation = Set2Set(cell.hidden_size, processing_steps=3)
    aggregation.lstm.load_state_dict({f"{name}_l0": weight for name, weight in cell.state_dict().items()})
    return aggregation


def padded(method: str, max_nodes: int, ours: nn.Module | None) -> Pool | None:
    """`method` on padded tensors; None if nobody would write it that way."""
    ways: dict[str, Pool] = {
        "sort_columns": lambda x, index: sorted_columns(x, index, max_nodes),
        "ordering": lambda x, index: sorted_columns(with_sum(x), index, max_nodes),
        "sort": lambda x, index: sorted_rows(x, index, max_nodes),
        "sum": lambda x, index: dense_sum(x, index, max_nodes),
        "kernels": lambda x, index: dense_gaussians(x, index, max_nodes, _centres(ours)),
    }
    return ways.get(method)


def aggregation(method: str, max_nodes: int, ours: nn.Module | None) -> Pool | None:
    """`method` with PyG's aggregations; None if PyG has none."""
    summed, by_last = SumAggregation(), SortAggregation(max_nodes)
    ways: dict[str, Pool] = {
        "sort": by_last,
        "sum": summed,
        "kernels": lambda x, index: summed(gaussians(x, _centres(ours)), index),
    }
    if method == "set2set":
        assert ours is not None
        return set2set(ours)
    return ways.get(method)


def _centres(ours: nn.Module | None) -> Tensor:
    assert ours is not None
    return dict(ours.named_buffers())["centres"].float()
