"""Sorting within the graphs of a flat batch, as PyTorch operators: `torch.ops.permlab.*`.

Each operator has a plain definition, which runs on any device, and a fake kernel: shapes for `torch.compile`.
An accelerator may register a kernel of its own for a device; for finite values it must give the same bits.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from permlab.readouts.segments import segment_ids


def _operator(signature: str, plain: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """`torch.ops.permlab.NAME`, by its plain definition on every device."""
    name, schema = signature.split("(", 1)
    torch.library.define(f"permlab::{name}", f"({schema}")
    torch.library.impl(f"permlab::{name}", "default", plain)
    torch.library.register_fake(f"permlab::{name}", fake)
    return getattr(torch.ops.permlab, name).default


def plain_segment_sort(x: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    """x [n, k] → its columns, each descending within every graph, and the rows they came from, int32; both [n, k].

    Equal values keep the order of their rows; −0 becomes 0.
    """
    x = x + 0.0
    rows = _descending(x, ptr)
    return x.gather(0, rows), rows.to(torch.int32, memory_format=torch.contiguous_format)


segment_sort = _operator(
    "segment_sort(Tensor x, Tensor ptr) -> (Tensor, Tensor)",
    plain_segment_sort,
    lambda x, ptr: (x.new_empty(x.shape), x.new_empty(x.shape, dtype=torch.int32)),
)


def plain_segment_unsort(values: Tensor, rows: Tensor) -> Tensor:
    """The inverse of `segment_sort`: values, rows [n, k] → [n, k]."""
    return torch.empty_like(values, memory_format=torch.contiguous_format).scatter_(0, rows.long(), values)


segment_unsort = _operator(
    "segment_unsort(Tensor values, Tensor rows) -> Tensor",
    plain_segment_unsort,
    lambda values, rows: values.new_empty(values.shape),
)


def plain_lexicographic_order(x: Tensor, ptr: Tensor) -> Tensor:
    """x [n, d] → order [n]: in every graph by the last column descending, ties by the column before it, and so on."""
    order = torch.arange(x.size(0), device=x.device)
    for column in x.unbind(1):  # stable sorts: the column sorted last decides first
        order = order[column[order].argsort(descending=True, stable=True)]
    graph = segment_ids(ptr, x.size(0))
    return order[graph[order].argsort(stable=True)]


lexicographic_order = _operator(
    "lexicographic_order(Tensor x, Tensor ptr) -> Tensor",
    plain_lexicographic_order,
    lambda x, ptr: x.new_empty(x.size(0), dtype=torch.int64),
)


def _keep_rows(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _sort_backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor, None]:
    """The gradient applies the inverse permutations."""
    return segment_unsort(grad, ctx.saved_tensors[0]), None


def _unsort_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    return grad.gather(0, ctx.saved_tensors[0].long()), None


def _keep_inputs(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])


torch.library.register_autograd("permlab::segment_sort", _sort_backward, setup_context=_keep_rows)
torch.library.register_autograd("permlab::segment_unsort", _unsort_backward, setup_context=_keep_inputs)


def _descending(x: Tensor, ptr: Tensor) -> Tensor:
    """The rows [n, k] in which every column of x, without −0, descends within every graph, ties as given.

    If 64 bits hold both graph and value, they form one integer key: one sort instead of two takes a quarter of the
    time.
    """
    graph = segment_ids(ptr, x.size(0))
    columns = x.T.contiguous()  # the last dimension is the fast one to sort
    if x.dtype == torch.float64:
        by_value = columns.argsort(dim=1, descending=True, stable=True)
        return by_value.gather(1, graph[by_value].argsort(dim=1, stable=True)).T
    bits = columns.float().view(torch.int32)
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # compared as integers, these order like the floats
    return ((graph << 32) + ~ascending).argsort(dim=1, stable=True).T


class _SortRows(torch.autograd.Function):
    """`segment_sort` with its gradient as an autograd function: a tenth faster than autograd through the operator,
    and with the row sums inside a seventh.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor, with_sum: bool) -> Tensor:
        columns = torch.cat([x, x.sum(1, keepdim=True)], dim=1) if with_sum else x
        values, rows = segment_sort(columns, ptr)
        ctx.save_for_backward(rows)
        ctx.with_sum = with_sum
        return values

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        columns, _ = _sort_backward(ctx, grad, None)
        return (columns[:, :-1] + columns[:, -1:] if ctx.with_sum else columns), None, None


class _Rearrange(torch.autograd.Function):
    """The rows of x in another order; each row is taken once, so the gradient is the inverse permutation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return x.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        return grad.index_select(0, back), None


def sort_rows(x: Tensor, ptr: Tensor, with_sum: bool = False) -> Tensor:
    """↓X of every graph, or ↓(X [I | 1]): x [n, k] → [n, k] or [n, k + 1], each column descending."""
    values: Tensor = _SortRows.apply(x, ptr, with_sum)
    return values


def rearrange_rows(x: Tensor, ptr: Tensor) -> Tensor:
    """ΠX of every graph: x [n, d] → [n, d], rows in their lexicographic order, the last column first."""
    rows: Tensor = _Rearrange.apply(x, lexicographic_order(x.detach(), ptr))
    return rows
