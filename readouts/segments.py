"""Arithmetic on flat batches: the rows of graph b are x[ptr[b]:ptr[b+1]].

Work is proportional to the n rows that exist: nothing is padded to the largest graph but what is asked for padded.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from permlab.readouts.errors import ReadoutError
from permlab.readouts.loops.lexicographic import lexicographic, lexicographic_keys
from permlab.readouts.loops.network import put_back, sort_descending
from permlab.readouts.loops.padding import pad, unpad
from permlab.readouts.tape import apply


def segment_ids(ptr: Tensor) -> Tensor:
    """ptr [B+1] → the graph of every row, [n], ascending."""
    return _repeat(torch.arange(ptr.numel() - 1, device=ptr.device), ptr.diff())


def _repeat(values: Tensor, counts: Tensor) -> Tensor:
    """Each value as often as its count says."""
    if values.device.type == "cpu":  # NumPy takes a third of the time
        return torch.from_numpy(np.repeat(values.numpy(), counts.numpy()))
    return torch.repeat_interleave(values, counts)


def bag(x: Tensor, rows: Tensor, ptr: Tensor, weights: Tensor | None = None) -> Tensor:
    """Σ w_j x[rows_j] over j = ptr[b] … ptr[b+1] − 1: x [n, k] → [B, k]; no gradient.

    torch's embedding bag without the checks of its front door: ten times as fast as a segment reduction.
    """
    return torch.embedding_bag(x, rows, ptr, False, 0, False, weights, True)[0]


def weighted_sum(x: Tensor, ptr: Tensor, weights: Tensor | None = None) -> Tensor:
    """Σ_i w_i x_i over the rows of every graph: x [n, k], w [n] → [B, k]; no gradient."""
    if not x.numel():
        return x.new_zeros(ptr.numel() - 1, x.size(1))
    return bag(x, torch.arange(x.size(0), device=x.device, dtype=ptr.dtype), ptr, weights)


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor, weights: Tensor | None) -> Tensor:
        ctx.save_for_backward(ptr, weights)
        return weighted_sum(x, ptr, weights)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        ptr, weights = ctx.saved_tensors
        rows = grad.index_select(0, segment_ids(ptr))
        return rows if weights is None else rows * weights[:, None], None, None


def segment_sum(x: Tensor, ptr: Tensor, weights: Tensor | None = None) -> Tensor:
    """Σ_i w_i x_i over the rows of every graph: x [n, k] → [B, k]; an empty graph sums to 0. Deterministic.

    The weights [n] are ones unless given, and take no gradient. Where no gradient is asked for, as in an evaluation,
    sums are in double precision: graphs whose sums are equal then tie, in whatever order their nodes come.
    """
    if torch.is_grad_enabled() or x.device.type == "mps":
        return apply(_SegmentSum, x, ptr, weights)
    wide = x.double() if weights is None else x.double() * weights[:, None]
    return torch.segment_reduce(wide, "sum", offsets=ptr, unsafe=True, initial=0.0).to(x.dtype)


class _FlatPadded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, ptr: Tensor, max_nodes: int) -> Tensor:
        ctx.ptr, ctx.shape = ptr, rows.shape
        out = rows.new_empty(ptr.numel() - 1, max_nodes * rows.size(1))
        pad(rows.contiguous().numpy(), ptr.numpy(), np.arange(len(out)), 0, max_nodes, out.numpy())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        rows, graphs = grad.new_empty(ctx.shape), np.arange(len(grad))
        unpad(grad.contiguous().numpy(), ctx.ptr.numpy(), graphs, 0, grad.size(1) // max(ctx.shape[1], 1), rows.numpy())
        return rows, None, None


def flat_padded(rows: Tensor, ptr: Tensor, max_nodes: int) -> Tensor:
    """rows [n, k] → [B, max_nodes · k]: every graph's rows, then zeros."""
    graphs, k = ptr.numel() - 1, rows.size(1)
    if graphs and (largest := int(ptr.diff().max())) > max_nodes:
        raise ReadoutError(f"a graph has {largest} nodes; max_nodes is {max_nodes}")
    if rows.dtype == torch.float32 and rows.device.type == "cpu":
        return apply(_FlatPadded, rows, ptr, max_nodes)
    shift = torch.arange(0, graphs * max_nodes, max_nodes, device=ptr.device)[:graphs] - ptr[:-1]
    slot = torch.arange(rows.size(0), device=rows.device) + _repeat(shift, ptr.diff())
    return rows.new_zeros(graphs * max_nodes, k).index_copy(0, slot, rows).view(graphs, max_nodes * k)


class _SortRows(torch.autograd.Function):
    """The gradient goes back along the same permutations."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor, with_sum: bool) -> Tensor:
        columns = torch.cat([x, x.sum(1, keepdim=True)], 1) if with_sum else x
        out, rows = sort_descending(columns.numpy(), ptr.numpy())
        ctx.rows, ctx.with_sum = rows, with_sum
        return torch.from_numpy(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        columns = torch.from_numpy(put_back(grad.contiguous().numpy(), ctx.rows))
        return columns[:, :-1] + columns[:, -1:] if ctx.with_sum else columns, None, None


def sort_rows(x: Tensor, ptr: Tensor, with_sum: bool = False) -> Tensor:
    """↓X of every graph, or with its sum ↓[X | X1]: x [n, k] → [n, k] or [n, k + 1], each column descending."""
    if x.dtype == torch.float32 and x.device.type == "cpu":
        return apply(_SortRows, x, ptr, with_sum)
    columns = torch.cat([x, x.sum(1, keepdim=True)], 1) if with_sum else x
    return columns.gather(0, descending_order(columns.detach(), ptr))


def descending_order(x: Tensor, ptr: Tensor) -> Tensor:
    """x [n, k] → the rows [n, k] in which each column descends within every graph, ties as given."""
    by_value = x.argsort(dim=0, descending=True, stable=True)
    by_graph = segment_ids(ptr)[by_value].argsort(dim=0, stable=True)
    return by_value.gather(0, by_graph)


class _Rearranged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return x.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        return grad.index_select(0, place), None


def rearranged(x: Tensor, order: Tensor) -> Tensor:
    """x[order] for a permutation [n] of the rows of x [n, k]: its gradient is the rows put back, not added up."""
    return apply(_Rearranged, x, order)


def lexicographic_order(x: Tensor, ptr: Tensor) -> Tensor:
    """x [n, d] → order [n]: in every graph by the last column descending, ties by the column before it, and so on."""
    rows, bounds = x.detach().cpu().contiguous().numpy(), ptr.cpu().numpy()
    if rows.dtype == np.float32:
        order = lexicographic_keys(rows, rows.view(np.int32), bounds)
    else:
        order = lexicographic(rows, bounds)
    return torch.from_numpy(order).to(x.device)
