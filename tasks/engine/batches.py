"""A training batch as the engine takes it: flat NumPy arrays, put together by compiled loops."""

from typing import NamedTuple

import numpy as np
import torch

from permlab.datasets.randomness import node_order
from permlab.tasks.data import GraphData
from permlab.tasks.engine.assembly import assemble, assemble_permuted, bounds, features, row_sums, touch


class Hop(NamedTuple):
    """A sparse matrix [m, n] as CSR; without values its entries are ones."""

    ptr: torch.Tensor  # [m + 1] int32
    column: torch.Tensor  # [entries] int32
    value: torch.Tensor | None

    @classmethod
    def of(cls, ptr: np.ndarray, column: np.ndarray, value: np.ndarray | None = None) -> "Hop":
        return cls(torch.from_numpy(ptr), torch.from_numpy(column), None if value is None else torch.from_numpy(value))

    def __call__(self, h: np.ndarray) -> np.ndarray:
        """For every row the weighted sum of rows of h: [n, k] → [m, k]. torch's embedding bag does this fast."""
        bag = torch.embedding_bag(torch.from_numpy(h), self.column, self.ptr, False, 0, False, self.value, True)
        return bag[0].numpy()


class Sums(NamedTuple):
    """Sums the rows of every graph to one row; its gradient copies that row back to the nodes."""

    forth: Hop
    back: Hop


class EngineBatch(NamedTuple):
    """B graphs with n nodes: what goes into the first layer, and the sparse products of the later ones."""

    ptr: np.ndarray  # [B + 1] int64
    y: np.ndarray  # [B] float32
    x: np.ndarray  # Â·Z, [n, r]
    adjacency: Hop  # Â [n, n], which is symmetric: its own gradient
    neighbour_sums: Sums  # 1ᵀÂ H of every graph
    sums: Sums  # 1ᵀX of every graph


class Batches:
    """Makes the batches of a GraphData; raises if its store is damaged."""

    def __init__(self, data: GraphData) -> None:
        self.data, self.store = data, data.store
        self.flat = (self.store.node_ptr, self.store.a_ptr, self.store.a_column, self.store.a_value)

    def make(self, graphs: np.ndarray, copies: np.ndarray) -> EngineBatch:
        """The graphs at these positions, each in the order of its copy."""
        try:
            return self._make(graphs, copies)
        except ValueError:
            raise self.store.damaged() from None

    def _make(self, graphs: np.ndarray, copies: np.ndarray) -> EngineBatch:
        store = self.store
        ptr, entry_ptr = bounds(graphs, store.node_ptr, store.a_ptr, len(store.a_column))
        flat = (graphs, ptr, entry_ptr, *self.flat)
        if self.data.permutations:
            touch(graphs, *self.flat, store.az.reshape(-1))  # whole graphs in sequence are prefetched anyway
            node, *adjacency = assemble_permuted(*flat, *self._orders(graphs, ptr, copies))
            x = store.az.take(node, axis=0)
        else:
            adjacency, x = assemble(*flat), features(graphs, ptr, store.node_ptr, store.az)
        bag_ptr, rows, graph, weights = row_sums(ptr, adjacency[0], adjacency[2])
        neighbour_sums = Sums(Hop.of(bag_ptr, rows[:-1], weights), Hop.of(rows, graph, weights))
        sums = Sums(Hop.of(bag_ptr, rows[:-1]), Hop.of(rows, graph))
        return EngineBatch(ptr, store.y[graphs], x, Hop.of(*adjacency), neighbour_sums, sums)

    def _orders(self, graphs: np.ndarray, ptr: np.ndarray, copies: np.ndarray) -> tuple[np.ndarray, ...]:
        """Node orders, and for every graph which row of them it takes and where it begins there."""
        data = self.data
        if not data.fresh_permutations:
            return data.orders, copies, self.store.node_ptr[graphs]
        order = node_order(self.store.graph_id[graphs], ptr, data.copy_seeds(data.drawn_epoch + 1)[copies])
        return (order - np.repeat(ptr[:-1], np.diff(ptr)))[None], np.zeros_like(graphs), ptr
