"""Arithmetic on flat batches: the rows of graph b are x[ptr[b]:ptr[b+1]].

Work is proportional to the n rows that exist: what sorts pads to graphs of about the same size only, and nothing loops
over graphs, but for giants.
"""

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")  # what is used of it is tested
SMALL, GIANT = 32, 1024  # rows; numpy sorts up to 256 twenty times as fast an entry as thousands


def segment_ids(ptr: Tensor) -> Tensor:
    """ptr [B+1] → the graph of every row, [n], ascending."""
    return _repeat(torch.arange(ptr.numel() - 1, device=ptr.device), ptr.diff())


def _repeat(values: Tensor, counts: Tensor) -> Tensor:
    """Each value as often as its count says."""
    if values.device.type == "cpu":  # NumPy takes a third of the time
        return torch.from_numpy(np.repeat(values.numpy(), counts.numpy()))
    return torch.repeat_interleave(values, counts)


def transposed(x: Tensor) -> Tensor:
    """xᵀ, copied: [n, k] → [k, n]."""
    if x.device.type == "cpu" and min(x.shape) < 32 and not torch.is_grad_enabled():  # NumPy takes half the time
        return torch.from_numpy(np.ascontiguousarray(x.numpy().T))
    return x.T.contiguous()


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


def spread(x: Tensor, ptr: Tensor, weights: Tensor | None = None) -> Tensor:
    """w_i x_b for every row i of graph b: x [B, k], w [n] → [n, k], the adjoint of `weighted_sum`; no gradient."""
    ids = segment_ids(ptr)
    if weights is None or not len(ids):
        return x.index_select(0, ids)
    return bag(x, ids, torch.arange(len(ids) + 1, device=ids.device), weights)


def row_products(x: Tensor, q: Tensor, ptr: Tensor, ids: Tensor) -> Tensor:
    """⟨x_k, q_b⟩ for every row k of every graph b: x [n, d], q [B, d] → [n]; no gradient.

    Entries of q xᵀ, picked by a sparse pattern: nothing of the size of x is written.
    """
    if x.device.type != "cpu":
        return (x * q.index_select(0, ids)).sum(1)
    n = x.size(0)
    pattern = torch.sparse_csr_tensor(ptr, torch.arange(n), x.new_zeros(n), (len(q), n), check_invariants=False)
    return torch.sparse.sampled_addmm(pattern, q, x.T, beta=0).values()


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor, weights: Tensor | None) -> Tensor:
        ctx.save_for_backward(ptr, weights)
        return weighted_sum(x, ptr, weights)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        ptr, weights = ctx.saved_tensors
        return spread(grad.contiguous(), ptr, weights), None, None


def segment_sum(x: Tensor, ptr: Tensor, weights: Tensor | None = None) -> Tensor:
    """Σ_i w_i x_i over the rows of every graph: x [n, k] → [B, k]; an empty graph sums to 0. Deterministic.

    The weights [n] are ones unless given, and take no gradient. Where no gradient is asked for, as in an evaluation,
    sums are in double precision: graphs whose sums are equal then tie, in whatever order their nodes come.
    """
    if torch.is_grad_enabled() or x.device.type == "mps":
        total: Tensor = _SegmentSum.apply(x, ptr, weights)
        return total
    wide = x.double() if weights is None else x.double() * weights[:, None]
    return torch.segment_reduce(wide, "sum", offsets=ptr, unsafe=True, initial=0.0).to(x.dtype)


class _FlatPadded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, slot: Tensor, graphs: int, max_nodes: int) -> Tensor:
        ctx.save_for_backward(slot)
        ctx.k = k = rows.size(1)
        return rows.new_zeros(graphs * max_nodes, k).index_copy_(0, slot, rows).view(graphs, max_nodes * k)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (slot,) = ctx.saved_tensors
        return grad.reshape(-1, ctx.k).index_select(0, slot), None, None, None


def flat_padded(rows: Tensor, ptr: Tensor, max_nodes: int) -> Tensor:
    """rows [n, k] → [B, max_nodes · k]: every graph's rows, then zeros."""
    graphs = ptr.numel() - 1
    shift = torch.arange(0, graphs * max_nodes, max_nodes, device=ptr.device)[:graphs] - ptr[:-1]
    slot = torch.arange(rows.size(0), device=rows.device) + _repeat(shift, ptr.diff())
    padded: Tensor = _FlatPadded.apply(rows, slot, graphs, max_nodes)
    return padded


def descending_order(columns: Tensor, sizes: Tensor) -> Tensor:
    """columns [k, n], sizes of the graphs [B] → perm [k, n]: each column descending in each graph, ties as given."""
    n = columns.size(1)
    if columns.dtype == torch.float32 and columns.device.type == "cpu" and n < 2**31:
        return _packed_order(columns.detach(), sizes)
    ids = _repeat(torch.arange(sizes.numel(), device=sizes.device), sizes)
    by_value = columns.argsort(dim=1, descending=True, stable=True)
    by_id = ids[by_value].argsort(dim=1, stable=True)
    return by_value.gather(1, by_id)


def _packed_order(columns: Tensor, sizes: Tensor) -> Tensor:
    """One int64 a value, (its bits, flipped to descend | place): NumPy sorts these with AVX2 or AVX-512.

    Graphs of about the same size are sorted together, as the rows of one array, padded at their ends; giants by radix.
    """
    k, n = columns.shape
    place_bits = max(n - 1, 0).bit_length()
    bits = columns.contiguous().numpy().view(np.int32)
    flipped = bits >> 31  # IEEE 754 floats compare as signed integers, once these bits are flipped
    flipped &= 0x7FFFFFFF
    flipped ^= bits
    np.invert(flipped, out=flipped)
    packed = np.empty((k, n + 1), dtype=np.int64)
    packed[:, :n] = flipped
    packed[:, :n] <<= place_bits
    packed[:, :n] |= np.arange(n)
    packed[:, n] = 2**63 - 1  # what a slot without a row points to
    count = sizes.numpy()
    start = np.cumsum(count) - count
    if count.max(initial=0) <= SMALL:
        classes = [np.arange(len(count))] if n else []
    else:
        kind = np.frexp(np.maximum(count, SMALL) - 1)[1]  # 32, 64, 128, … rows at the most
        classes = [np.flatnonzero(kind == power) for power in np.unique(kind[count <= GIANT])]
    widths = [int(count[graphs].max()) for graphs in classes]
    slots = [
        np.where(np.arange(width) < count[graphs, None], start[graphs, None] + np.arange(width), n).reshape(-1)
        for graphs, width in zip(classes, widths, strict=True)
    ]
    slot = np.concatenate(slots) if slots else np.empty(0, dtype=np.int64)
    blocks = np.take(packed, slot, axis=1)
    first = 0
    for graphs, width in zip(classes, widths, strict=True):
        last = first + len(graphs) * width
        blocks[:, first:last].reshape(k, len(graphs), width).sort(axis=2)  # a view
        first = last
    filled = np.flatnonzero(slot < n)
    back = np.zeros(n, dtype=np.int64)
    back[slot[filled]] = filled
    order = np.take(blocks, back, axis=1) if blocks.size else np.empty((k, n), dtype=np.int64)
    order &= (1 << place_bits) - 1
    for graph in np.flatnonzero(count > GIANT):
        rows = slice(start[graph], start[graph] + count[graph])
        np.add(_radix_order(flipped[:, rows]), start[graph], out=order[:, rows])
    return torch.from_numpy(order)


def _radix_order(values: np.ndarray) -> np.ndarray:
    """The stable order of each row of 32-bit integers, [k, n] → [k, n].

    NumPy sorts 16 bits by radix: a row takes a time proportional to n. Row by row, as one of them fits into the cache.
    """
    words = values.view(np.uint32) ^ np.uint32(2**31)
    low, high = words.astype(np.uint16), (words >> np.uint32(16)).astype(np.uint16)
    order = np.empty(values.shape, dtype=np.int64)
    for row in range(len(values)):
        by_low = low[row].argsort(kind="stable")
        by_low.take(high[row].take(by_low).argsort(kind="stable"), out=order[row])
    return order


class _SortColumns(torch.autograd.Function):
    """columns [k, n] → sorted [k, n]; the gradient goes back along the same permutation."""

    @staticmethod
    def forward(ctx: Any, columns: Tensor, sizes: Tensor) -> Tensor:
        perm = descending_order(columns, sizes)
        ctx.save_for_backward(perm)
        return columns.gather(1, perm)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (perm,) = ctx.saved_tensors
        grad = grad.contiguous()  # a strided scatter is three times slower
        return torch.empty_like(grad).scatter_(1, perm, grad), None


def sort_columns(columns: Tensor, ptr: Tensor) -> Tensor:
    """columns [k, n], one row a column of the paper → the same, descending within every graph."""
    sorted_columns: Tensor = _SortColumns.apply(columns, ptr.diff())
    return sorted_columns


class _SortWithSum(torch.autograd.Function):
    """[X | X1] sorted: x [n, d] → [n, d + 1], each column descending within every graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, sizes: Tensor) -> Tensor:
        columns = torch.cat([transposed(x), x.sum(1)[None]])
        perm = descending_order(columns, sizes)
        ctx.save_for_backward(perm)
        return transposed(columns.gather(1, perm))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (perm,) = ctx.saved_tensors
        columns = transposed(grad)
        columns = torch.empty_like(columns).scatter_(1, perm, columns)
        return transposed(columns[:-1] + columns[-1]), None


def sort_with_sum(x: Tensor, ptr: Tensor) -> Tensor:
    """β_A(X) of every graph for A = [I | 1]: x [n, d] → [n, d + 1]."""
    rows: Tensor = _SortWithSum.apply(x, ptr.diff())
    return rows


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
    rows: Tensor = _Rearranged.apply(x, order)
    return rows


def lexicographic_order(x: Tensor, ptr: Tensor) -> Tensor:
    """x [n, d] → order [n]: within every graph by the last column descending, ties by the column before it, and so on.

    The other columns are looked at only where the last one ties; equal rows need no order.
    """
    x = x.detach()
    last = x.size(1) - 1
    order = descending_order(x[:, last][None], ptr.diff())[0]
    if last == 0:
        return order
    values = x[:, last].index_select(0, order)
    tied = values[1:] == values[:-1]
    ends = ptr[1:-1]
    tied[ends[(ends > 0) & (ends < len(x))] - 1] = False  # the next row is another graph's
    above = tied.nonzero()[:, 0]
    gaps = x.index_select(0, order[above]).sub_(x.index_select(0, order[above + 1])).abs_().sum(1)
    differ = above[gaps > 0]
    if not len(differ):
        return order
    run = torch.cat([tied.new_zeros(1), ~tied]).cumsum(0)  # rows that tie have one number
    unsettled = torch.zeros_like(run, dtype=torch.bool).index_fill_(0, run[1 + differ], True)[run]
    rows, runs = order[unsettled], run[unsettled]
    keys = (-x[rows, :last]).T.cpu().numpy()  # the least of the columns first; few rows
    inside = torch.from_numpy(np.lexsort((*keys, runs.cpu().numpy()))).to(rows.device)
    order[unsettled] = rows[inside]
    return order
