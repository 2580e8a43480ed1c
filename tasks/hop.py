"""Sums over neighbours: products with Â, and with what is left of it where equal rows are taken together."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from permlab.datasets.batch import GraphBatch
from permlab.readouts.compiled import compiled
from permlab.readouts.segments import bag, segment_ids


class Hop(NamedTuple):
    """A sparse matrix [m, n] as CSR; without values its entries are ones."""

    ptr: Tensor  # [m + 1]
    column: Tensor  # [entries]
    value: Tensor | None = None  # [entries]

    def __call__(self, h: Tensor) -> Tensor:
        """For every row the weighted sum of rows of h: [n, k] → [m, k]; no gradient.

        An embedding bag is that sum, and three times as fast as a product with a sparse CSR tensor.
        """
        return bag(h, self.column, self.ptr, self.value)


class Step(NamedTuple):
    """H ↦ A H, and the gradient of it, Aᵀ G, as one product or two."""

    forth: Hop
    back: tuple[Hop, ...]
    sizes: Tensor | None = None  # [m]: how often a layer's bias counts in every row, if not once


def neighbours(batch: GraphBatch) -> Step:
    """Â of a batch, which is symmetric."""
    whole = Hop(batch.a_ptr.int(), batch.a_column.int(), batch.a_value)
    return Step(whole, (whole,))


def through(hops: Sequence[Hop], h: Tensor) -> Tensor:
    """One product after the other."""
    for hop in hops:
        h = hop(h)
    return h


def sums(batch: GraphBatch, weighted: bool) -> Step:
    """Of the rows of every graph Σ_i h_i, or 1ᵀÂ H: Â is symmetric. The bias counts once a row."""
    if batch.x.device.type == "cpu":
        arrays = _sums(batch.ptr.numpy(), batch.a_ptr.numpy(), batch.a_value.numpy())
        ptr, rows, ids, sizes, columns = (torch.from_numpy(array) for array in arrays)
    else:
        ptr, ids, sizes = batch.ptr, segment_ids(batch.ptr), batch.ptr.diff().to(batch.a_value.dtype)
        rows, columns = torch.arange(len(ids) + 1, device=ids.device), None
        if weighted:
            columns = neighbours(batch).forth(batch.a_value.new_ones(len(batch.x), 1))[:, 0]
    weights = columns if weighted else None
    return Step(Hop(ptr, rows[:-1], weights), (Hop(rows, ids, weights),), sizes)


@compiled
def _sums(ptr: np.ndarray, a_ptr: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, ...]:
    """ptr, 0 … n, the graph of every row, the size of every graph, Â1."""
    graphs, n = len(ptr) - 1, ptr[-1]
    bounds, sizes = np.empty(graphs + 1, dtype=np.int32), np.empty(graphs, dtype=value.dtype)
    rows, ids = np.empty(n + 1, dtype=np.int32), np.empty(n, dtype=np.int32)
    columns = np.zeros(n, dtype=value.dtype)
    for row in range(n + 1):
        rows[row] = row
    bounds[0] = 0
    for graph in range(graphs):
        bounds[graph + 1], sizes[graph] = ptr[graph + 1], ptr[graph + 1] - ptr[graph]
        ids[ptr[graph] : ptr[graph + 1]] = graph
    for i in range(n):
        total = columns[i]
        for j in range(a_ptr[i], a_ptr[i + 1]):
            total += value[j]
        columns[i] = total
    return bounds, rows, ids, sizes, columns
