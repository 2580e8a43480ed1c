"""Node features scaled column by column, with statistics of the training graphs."""

from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from permlab.datasets.batch import GraphBatch, NormalisedAdjacency

Blocks = Callable[[], Iterable[np.ndarray]]  # the features [n, r] of some nodes at a time, as often as it is called


class ScaledBatch(GraphBatch):
    """The same batch with the features (Z − shift) / width; what a model does not ask for is not computed."""

    def __init__(self, batch: GraphBatch, shift: Tensor, width: Tensor) -> None:
        self.raw, self.shift, self.width = batch, shift, width
        self.ptr, self.y, self.sizes, self.graph_id = batch.ptr, batch.y, batch.sizes, batch.graph_id
        self.step = batch.step

    @cached_property
    def x(self) -> Tensor:  # type: ignore[override]
        return (self.raw.x.to(self.shift.dtype) - self.shift) / self.width

    @property
    def adjacency(self) -> NormalisedAdjacency:
        return self.raw.adjacency

    @property
    def batch(self) -> Tensor:
        return self.raw.batch

    @property
    def edge_index(self) -> Tensor:  # type: ignore[override]
        return self.raw.edge_index

    @property
    def edge_attr(self) -> Tensor | None:  # type: ignore[override]
        return self.raw.edge_attr


class ScaleFeatures(nn.Module):
    """Z ↦ (Z − shift) / width. Both are buffers [r], so that the weights of a model include them: predictions and
    permuted graphs are scaled as the training graphs were.
    """

    shift: Tensor
    width: Tensor

    def __init__(self, shift: Tensor, width: Tensor) -> None:
        super().__init__()
        self.register_buffer("shift", shift.to(torch.get_default_dtype()))
        self.register_buffer("width", width.to(torch.get_default_dtype()))

    def forward(self, batch: GraphBatch) -> ScaledBatch:
        return ScaledBatch(batch, self.shift, self.width)


def standard(blocks: Blocks) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every column, in two passes: Σ x² − n mean² would cancel."""
    sums, sizes = zip(*((x.sum(axis=0, dtype=np.float64), len(x)) for x in blocks()), strict=True)
    n = sum(sizes)
    mean = np.sum(sums, axis=0) / n
    return mean, np.sqrt(sum(np.square(x - mean).sum(axis=0) for x in blocks()) / n)


def minmax(blocks: Blocks) -> tuple[np.ndarray, np.ndarray]:
    """Minimum and range of every column."""
    lows, highs = zip(*((x.min(axis=0), x.max(axis=0)) for x in blocks()), strict=True)
    low, high = np.min(lows, axis=0).astype(np.float64), np.max(highs, axis=0)
    return low, high - low


SCALINGS = {"standard": standard, "minmax": minmax}


def scaling_of(name: str, blocks: Blocks) -> ScaleFeatures:
    """The scaling of the features of all nodes of the training graphs; a constant column has width 1."""
    shift, width = (torch.from_numpy(part) for part in SCALINGS[name](blocks))
    return ScaleFeatures(shift, torch.where(width > 0, width, torch.ones_like(width)))
