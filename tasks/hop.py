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
    whole = Hop(batch.a_ptr, batch.a_column, batch.a_value)
    return Step(whole, (whole,))


def through(hops: Sequence[Hop], h: Tensor) -> Tensor:
    """One product after the other."""
    for hop in hops:
        h = hop(h)
    return h


def row_sums(batch: GraphBatch) -> Tensor:
    """Â1, [n]."""
    if batch.a_value.device.type == "cpu":
        return torch.from_numpy(_row_sums(batch.a_ptr.numpy(), batch.a_value.numpy()))
    return neighbours(batch).forth(batch.a_value.new_ones(len(batch.x), 1))[:, 0]


@compiled
def _row_sums(ptr: np.ndarray, value: np.ndarray) -> np.ndarray:
    total = np.zeros(len(ptr) - 1, dtype=value.dtype)
    for i in range(len(total)):
        for j in range(ptr[i], ptr[i + 1]):
            total[i] += value[j]
    return total


def sums(ptr: Tensor, weights: Tensor | None, dtype: torch.dtype) -> Step:
    """Σ_i w_i h_i over the rows of every graph; the bias counts once a row."""
    if ptr.device.type == "cpu":
        bounds, each, ids = (torch.from_numpy(array) for array in _sums(ptr.numpy()))
    else:
        ids = segment_ids(ptr)
        bounds, each = ptr, torch.arange(len(ids) + 1, device=ids.device)
    return Step(Hop(bounds, each[:-1], weights), (Hop(each, ids, weights),), ptr.diff().to(dtype))


@compiled
def _sums(ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ptr, 0 … n, and the graph of every row."""
    bounds, n = np.empty(len(ptr), dtype=np.int32), ptr[-1]
    each, ids = np.empty(n + 1, dtype=np.int32), np.empty(n, dtype=np.int32)
    for graph in range(len(ptr)):
        bounds[graph] = ptr[graph]
    for row in range(n + 1):
        each[row] = row
    for graph in range(len(ptr) - 1):
        ids[ptr[graph] : ptr[graph + 1]] = graph
    return bounds, each, ids
