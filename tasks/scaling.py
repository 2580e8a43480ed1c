"""Node features scaled column by column, with statistics of the training graphs."""

from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from permlab.datasets.batch import GraphBatch, NormalisedAdjacency


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
    def az(self) -> Tensor:
        """Â (Z − 1 shiftᵀ) / width = (ÂZ − (Â1) shiftᵀ) / width."""
        sums = self.adjacency @ self.shift.new_ones(int(self.sizes.sum()), 1)
        return (self.raw.az.to(self.shift.dtype) - sums * self.shift) / self.width

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


def standard(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every column."""
    return x.mean(axis=0), x.std(axis=0)


def minmax(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Minimum and range of every column."""
    low = x.min(axis=0)
    return low, x.max(axis=0) - low


SCALINGS = {"standard": standard, "minmax": minmax}


def scaling_of(name: str, x: np.ndarray) -> ScaleFeatures:
    """The scaling of the features x [n, r] of all nodes of the training graphs; a constant column has width 1."""
    shift, width = (torch.from_numpy(part) for part in SCALINGS[name](x.astype(np.float64)))
    return ScaleFeatures(shift, torch.where(width > 0, width, torch.ones_like(width)))
