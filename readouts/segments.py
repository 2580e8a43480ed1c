"""Arithmetic on flat batches: the rows of graph b are x[ptr[b]:ptr[b+1]].

Work is proportional to the n rows that exist. Nothing here pads to [B, N], nothing loops over graphs.
"""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import segment


def segment_ids(ptr: Tensor) -> Tensor:
    """ptr [B+1] → the graph of every row, [n], ascending."""
    graphs = torch.arange(ptr.numel() - 1, device=ptr.device)
    return torch.repeat_interleave(graphs, ptr.diff())


def segment_sum(x: Tensor, ptr: Tensor) -> Tensor:
    """x [n, k] → [B, k]; an empty graph sums to 0. Deterministic on every device."""
    return segment(x, ptr, reduce="sum")


def flat_padded(rows: Tensor, ptr: Tensor, max_nodes: int) -> Tensor:
    """rows [n, k] → [B, max_nodes · k]: every graph's rows, then zeros."""
    ids = segment_ids(ptr)
    slot = torch.arange(rows.size(0), device=rows.device) - ptr[ids] + ids * max_nodes
    padded = rows.new_zeros((ptr.numel() - 1) * max_nodes, rows.size(1))
    return padded.index_copy(0, slot, rows).view(ptr.numel() - 1, max_nodes * rows.size(1))


def descending_order(columns: Tensor, ids: Tensor) -> Tensor:
    """columns [k, n], ids [n] ascending → perm [k, n]: each column descending within each id, ties in input order."""
    n = columns.size(1)
    place_bits = max(n - 1, 0).bit_length()
    groups = int(ids[-1]) + 1 if n else 0
    fits = place_bits + 32 + groups.bit_length() < 64
    if columns.dtype == torch.float32 and columns.device.type == "cpu" and fits:
        return _packed_order(columns, ids, place_bits)
    by_value = columns.argsort(dim=1, descending=True, stable=True)
    by_id = ids[by_value].argsort(dim=1, stable=True)
    return by_value.gather(1, by_id)


def _packed_order(columns: Tensor, ids: Tensor, place_bits: int) -> Tensor:
    """One int64 a value, (id | value's bits, flipped to descend | place): NumPy sorts these with AVX2 or AVX-512.

    Sorting plain integers is three times as fast as an argsort, and the permutation comes out in the low bits.
    """
    bits = columns.detach().contiguous().view(torch.int32)
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # IEEE 754 floats compare as these signed integers do
    packed = ascending.bitwise_not_().to(torch.int64) << place_bits
    packed += (ids << (32 + place_bits)) + torch.arange(ids.numel())
    packed.numpy().sort(axis=1)
    return packed.bitwise_and_((1 << place_bits) - 1)


class _SortColumns(torch.autograd.Function):
    """columns [k, n] → sorted [k, n]; the gradient goes back along the same permutation."""

    @staticmethod
    def forward(ctx: Any, columns: Tensor, ids: Tensor) -> Tensor:
        perm = descending_order(columns, ids)
        ctx.save_for_backward(perm)
        return columns.gather(1, perm)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (perm,) = ctx.saved_tensors
        grad = grad.contiguous()  # a strided scatter is three times slower
        return torch.empty_like(grad).scatter_(1, perm, grad), None


def sort_columns(columns: Tensor, ptr: Tensor) -> Tensor:
    """columns [k, n], one row a column of the paper → the same, descending within every graph."""
    sorted_columns: Tensor = _SortColumns.apply(columns, segment_ids(ptr))
    return sorted_columns


def lexicographic_order(x: Tensor, ptr: Tensor) -> Tensor:
    """x [n, d] → order [n]: within every graph by the last column descending, ties by the column before it, and so on.

    Rows that tie after one column are the few that a second sort sees; equal rows need no order.
    """
    x = x.detach()
    group = segment_ids(ptr)
    order = torch.arange(x.size(0), device=x.device)
    active = order.clone()  # places in `order` that are not settled; their groups lie together
    for column in range(x.size(1) - 1, -1, -1):
        inside = descending_order(x[order[active], column][None], _dense_ids(group[active]))[0]
        order[active] = order[active[inside]]
        first, second = order[active[:-1]], order[active[1:]]
        tied = (group[active[:-1]] == group[active[1:]]) & (x[first, column] == x[second, column])
        starts = torch.cat([tied.new_ones(min(active.numel(), 1)), ~tied])
        finer = starts.cumsum(0) - 1
        differ = tied.clone()
        differ[tied] = (x[first[tied]] != x[second[tied]]).any(dim=1)
        open_groups = torch.zeros_like(finer, dtype=torch.bool)
        open_groups[finer[1:][differ]] = True
        group[active] = finer
        active = active[open_groups[finer]]
        if not active.numel():
            break
    return order


def _dense_ids(group: Tensor) -> Tensor:
    """Ascending labels → 0, 1, 2, …"""
    return torch.unique_consecutive(group, return_inverse=True)[1]
