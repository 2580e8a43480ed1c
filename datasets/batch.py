"""A batch of graphs as flat tensors, as PyG batches them."""

from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from permlab.datasets.neighbours import neighbour_sum


class NormalisedAdjacency(NamedTuple):
    """Â = D̃^-1/2 (A + I) D̃^-1/2 of a batch, block-diagonal, as CSR [n, n]: [n + 1], [entries], [entries].

    `back` is its transpose, if it is not symmetric.
    """

    ptr: Tensor  # int32
    column: Tensor  # int32
    value: Tensor  # float32
    back: tuple[Tensor, Tensor, Tensor] | None = None

    def __matmul__(self, h: Tensor) -> Tensor:
        """Â H: for every node the weighted sum over its neighbours and itself, [n, k] → [n, k]."""
        if not len(h):
            return h
        forth, back = ((ptr, column, value.to(h.dtype)) for ptr, column, value in (self[:3], self.back or self[:3]))
        summed: Tensor = neighbour_sum(h, *forth, *back)
        return summed

    def to(self, device: torch.device | str) -> "NormalisedAdjacency":
        ptr, column, value = (part.to(device) for part in self[:3])
        if self.back is None:
            return NormalisedAdjacency(ptr, column, value)
        back_ptr, back_column, back_value = (part.to(device) for part in self.back)
        return NormalisedAdjacency(ptr, column, value, (back_ptr, back_column, back_value))


class GraphBatch:
    """B graphs with n nodes and E directed edges in all.

    x          [n, r]          raw node features
    edge_index [2, E] int64    source and target of every edge, nodes numbered within the batch
    edge_attr  [E, s] or None  raw edge features
    ptr        [B + 1] int64   graph b has the nodes ptr[b] … ptr[b+1] − 1
    y          [B] or [B, T]   targets; NaN where a label is missing
    graph_id   [B]             which graphs these are

    `sizes` are the numbers of nodes, kept on the host, so that reading them does not wait for the device. `step` is the
    place of a training batch in its epoch.
    """

    def __init__(
        self,
        x: Tensor,
        edge_index: Tensor,
        ptr: Tensor,
        y: Tensor,
        edge_attr: Tensor | None = None,
        graph_id: np.ndarray | None = None,
        step: int = 0,
    ) -> None:
        self.x, self.edge_index, self.ptr, self.y, self.edge_attr = x, edge_index, ptr, y, edge_attr
        self.sizes = ptr.diff().cpu().numpy()
        self.graph_id = np.arange(len(self.sizes)) if graph_id is None else graph_id
        self.step = step

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    @torch.inference_mode(False)  # it is cached, and may be trained on later
    def batch(self) -> Tensor:
        """The graph of every node, [n] int64: what PyG's aggregations take as `index`."""
        graphs = torch.arange(len(self), device=self.ptr.device)
        return torch.repeat_interleave(graphs, self.ptr.diff(), output_size=int(self.sizes.sum()))

    @cached_property
    @torch.inference_mode(False)
    def adjacency(self) -> NormalisedAdjacency:
        """Â, from the edges: loops and repeated edges count once."""
        n, device = len(self.x), self.x.device
        loops = torch.arange(n, device=device)
        source, target = torch.cat([self.edge_index, torch.stack([loops, loops])], dim=1)
        forth, back = torch.unique(target * n + source), torch.unique(source * n + target)
        degree = torch.bincount(forth // max(n, 1), minlength=n)
        scale = degree.float().rsqrt() if device.type == "mps" else degree.double().rsqrt()

        def csr(key: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            row, column = key // max(n, 1), key % max(n, 1)
            counts = torch.bincount(row, minlength=n)
            ptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
            return ptr.int(), column.int(), (scale[row] * scale[column]).float()

        return NormalisedAdjacency(*csr(forth), csr(back))

    @property
    def az(self) -> Tensor:
        """Â·Z [n, r]: what the first graph convolution multiplies by its weight. Gradients reach x."""
        return self.adjacency @ self.x

    def to(self, device: torch.device | str) -> Self | "GraphBatch":
        """The same batch on another device."""
        if torch.device(device) == self.ptr.device:
            return self
        attributes = None if self.edge_attr is None else self.edge_attr.to(device)
        tensors = (part.to(device) for part in (self.x, self.edge_index, self.ptr, self.y))
        moved = GraphBatch.__new__(GraphBatch)
        moved.x, moved.edge_index, moved.ptr, moved.y = tensors
        moved.edge_attr, moved.sizes, moved.graph_id, moved.step = attributes, self.sizes, self.graph_id, self.step
        moved.adjacency = self.adjacency.to(device)
        return moved
