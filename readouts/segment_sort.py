"""Sorting within the graphs of a flat batch, as PyTorch operators: `torch.ops.permlab.*`.

Each operator has a plain definition, which runs on any device, and a fake kernel: shapes for `torch.compile`.
An accelerator may register a kernel of its own for a device; for finite values it must give the same bits.
"""

from typing import Any

import torch
from torch import Tensor

from permlab.readouts.segments import segment_ids


def plain_segment_sort(x: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    """x [n, k] → its columns, each descending within every graph, and the rows they came from, int32; both [n, k].

    Equal values keep the order of their rows; −0 becomes 0.
    """
    x = x + 0.0
    rows = _descending(x, ptr)
    return x.gather(0, rows), rows.to(torch.int32, memory_format=torch.contiguous_format)


segment_sort = torch.library.custom_op("permlab::segment_sort", plain_segment_sort, mutates_args=())


@segment_sort.register_fake
def _(x: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x, memory_format=torch.contiguous_format), torch.empty(
        x.shape, dtype=torch.int32, device=x.device
    )


def plain_segment_unsort(values: Tensor, rows: Tensor) -> Tensor:
    """What `segment_sort` did to the columns, undone: values, rows [n, k] → [n, k]."""
    return torch.empty_like(values, memory_format=torch.contiguous_format).scatter_(0, rows.long(), values)


segment_unsort = torch.library.custom_op("permlab::segment_unsort", plain_segment_unsort, mutates_args=())


@segment_unsort.register_fake
def _(values: Tensor, rows: Tensor) -> Tensor:
    return torch.empty_like(values, memory_format=torch.contiguous_format)


def _keep_rows(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _sort_backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor, None]:
    """The gradient takes the same permutations back."""
    return segment_unsort(grad, ctx.saved_tensors[0]), None


def _unsort_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    return grad.gather(0, ctx.saved_tensors[0].long()), None


segment_sort.register_autograd(_sort_backward, setup_context=_keep_rows)
segment_unsort.register_autograd(
    _unsort_backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1])
)


def plain_lexicographic_order(x: Tensor, ptr: Tensor) -> Tensor:
    """x [n, d] → order [n]: in every graph by the last column descending, ties by the column before it, and so on."""
    order = torch.arange(x.size(0), device=x.device)
    for column in x.unbind(1):  # stable: what is sorted last counts most
        order = order[column[order].argsort(descending=True, stable=True)]
    graph = segment_ids(ptr, x.size(0))
    return order[graph[order].argsort(stable=True)]


lexicographic_order = torch.library.custom_op(
    "permlab::lexicographic_order", plain_lexicographic_order, mutates_args=()
)


@lexicographic_order.register_fake
def _(x: Tensor, ptr: Tensor) -> Tensor:
    return torch.empty(x.size(0), dtype=torch.int64, device=x.device)


def _descending(x: Tensor, ptr: Tensor) -> Tensor:
    """The rows [n, k] in which every column of x, without −0, descends within every graph, ties as given.

    Graph and value are one integer key where 64 bits hold both: one sort instead of two takes a quarter of the time.
    """
    graph = segment_ids(ptr, x.size(0))
    columns = x.T.contiguous()  # the last dimension is the fast one to sort
    if x.dtype == torch.float64:
        by_value = columns.argsort(dim=1, descending=True, stable=True)
        return by_value.gather(1, graph[by_value].argsort(dim=1, stable=True)).T
    bits = columns.float().view(torch.int32)
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # as integers these compare as the floats do
    return ((graph << 32) + ~ascending).argsort(dim=1, stable=True).T


def sort_rows(x: Tensor, ptr: Tensor) -> Tensor:
    """↓X of every graph: x [n, k] → [n, k], each column descending."""
    values: Tensor = segment_sort(x, ptr)[0]
    return values
