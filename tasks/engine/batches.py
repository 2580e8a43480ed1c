"""A training batch as the engine takes it: flat NumPy arrays, put together by compiled loops."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch

from permlab.datasets.randomness import node_order
from permlab.tasks.data import GraphData
from permlab.tasks.engine.assembly import assemble, assemble_permuted, bounds, features, nodes, row_sums, touch
from permlab.tasks.engine.colours import Colours, colours_of
from permlab.tasks.engine.quotient import quotient


class Hop(NamedTuple):
    """A sparse matrix [m, n] as CSR; without values its entries are ones."""

    ptr: torch.Tensor  # [m + 1] int32
    column: torch.Tensor  # [entries] int32
    value: torch.Tensor | None

    @classmethod
    def of(cls, ptr: np.ndarray, column: np.ndarray, value: np.ndarray | None = None) -> "Hop":
        return cls(torch.from_numpy(ptr), torch.from_numpy(column), None if value is None else torch.from_numpy(value))

    def __call__(self, h: np.ndarray) -> np.ndarray:
        """For every row the weighted sum of rows of h: [n, k] → [m, k]. torch's embedding bag is that, and fast."""
        bag = torch.embedding_bag(torch.from_numpy(h), self.column, self.ptr, False, 0, False, self.value, True)
        return bag[0].numpy()


class Step(NamedTuple):
    """H ↦ A H with A [rows, n], and the gradient of it, Aᵀ G, as one product or two."""

    rows: int
    forth: Hop
    hops_back: tuple[Hop, ...]

    def back(self, grad: np.ndarray) -> np.ndarray:
        for hop in self.hops_back:
            grad = hop(grad)
        return grad


class EngineBatch(NamedTuple):
    """B graphs with n nodes: what goes into the first layer, and the products with Â of the later ones."""

    ptr: np.ndarray  # [B + 1] int64
    y: np.ndarray  # [B] float32
    x: np.ndarray  # Â·Z, [n, r], or with colours that of the c first colours
    steps: list[Step]  # of the second layer, the third, and all later ones
    sums: Step  # 1ᵀÂ H of every graph, from the rows that go into the last layer of three, or of n nodes
    plain_sums: Step  # 1ᵀX of every graph, from n rows


class Batches:
    """Makes the batches of a GraphData for so many graph convolutions; what is damaged in its store is told."""

    def __init__(self, data: GraphData, layers: int, coloured: bool) -> None:
        self.data, self.store, self.layers = data, data.store, layers
        store = self.store
        self.flat = (store.node_ptr, store.a_ptr, store.a_column, store.a_value)
        self.colours: Colours | None = None
        if coloured and layers > 2:
            with self._intact():
                self.colours = colours_of(data.split.train, store.az, *self.flat)

    @contextmanager
    def _intact(self) -> Iterator[None]:
        try:
            yield
        except ValueError:
            raise self.store.damaged() from None

    def make(self, graphs: np.ndarray, copies: np.ndarray) -> EngineBatch:
        """The graphs at these positions, each in the order of its copy."""
        with self._intact():
            return self._make(graphs, copies)

    def _make(self, graphs: np.ndarray, copies: np.ndarray) -> EngineBatch:
        store, colours = self.store, self.colours
        ptr, entry_ptr = bounds(graphs, store.node_ptr, store.a_ptr, len(store.a_column))
        if self.data.permutations or colours is not None:  # whole graphs, copied in a row, are read ahead anyway
            touch(graphs, *self.flat, store.az.reshape(-1) if colours is None else colours.second)
        flat = (graphs, ptr, entry_ptr, *self.flat)
        if self.data.permutations:
            node, *adjacency = assemble_permuted(*flat, *self._orders(graphs, ptr, copies))
        else:
            node, adjacency = None, assemble(*flat)
        y = store.y[graphs]
        if colours is None or ptr[-1] < len(colours.x):
            x = features(graphs, ptr, store.node_ptr, store.az) if node is None else store.az.take(node, axis=0)
            return plain_batch(ptr, y, x, adjacency, self.layers)
        node = nodes(graphs, ptr, store.node_ptr) if node is None else node
        return coloured_batch(ptr, y, colours, node, adjacency, self.layers)

    def _orders(self, graphs: np.ndarray, ptr: np.ndarray, copies: np.ndarray) -> tuple[np.ndarray, ...]:
        """Orders of nodes, and of every graph its row of them and where it begins there."""
        data = self.data
        if not data.fresh_permutations:
            return data.orders, copies, self.store.node_ptr[graphs]
        order = node_order(self.store.graph_id[graphs], ptr, data.copy_seeds(data.drawn_epoch + 1)[copies])
        return (order - np.repeat(ptr[:-1], np.diff(ptr)))[None], np.zeros_like(graphs), ptr


Csr = tuple[np.ndarray, np.ndarray, np.ndarray]


def plain_batch(ptr: np.ndarray, y: np.ndarray, x: np.ndarray, adjacency: Csr, layers: int) -> EngineBatch:
    """One row per node from the first layer on."""
    whole, (bounds, rows, graph, weights) = Hop.of(*adjacency), row_sums(ptr, adjacency[0], adjacency[2])
    onwards = Step(int(ptr[-1]), whole, (whole,))  # Â is symmetric
    sums = Step(len(y), Hop.of(bounds, rows[:-1], weights), (Hop.of(rows, graph, weights),))
    plain_sums = Step(len(y), Hop.of(bounds, rows[:-1]), (Hop.of(rows, graph),))
    return EngineBatch(ptr, y, x, [onwards] * (layers - 1), sums, plain_sums)


def coloured_batch(
    ptr: np.ndarray, y: np.ndarray, colours: Colours, node: np.ndarray, adjacency: Csr, layers: int
) -> EngineBatch:
    """One row per colour in the first two layers, then one row per node."""
    batch = plain_batch(ptr, y, colours.x, adjacency, layers)
    q = quotient(colours.first.take(node), colours.second.take(node), adjacency, len(colours.x))
    whole, by_colour = batch.steps[0].forth, Hop.of(q.node_ptr, q.node)
    first = Step(len(q.node_ptr) - 1, Hop.of(*q.forth), (Hop.of(*q.back),))
    to_nodes = Step(len(node), Hop(whole.ptr, torch.from_numpy(q.to_node), whole.value), (whole, by_colour))
    batch = batch._replace(steps=[first, to_nodes, *batch.steps[2:]])
    if layers > 3:
        return batch
    bounds, _, weights = batch.sums.forth  # the sum takes the rows of the second colours
    _, graph, _ = batch.sums.hops_back[0]
    nodes_of = by_colour.column
    gathered = Hop(by_colour.ptr, graph[nodes_of], None if weights is None else weights[nodes_of])
    return batch._replace(sums=Step(len(y), Hop(bounds, torch.from_numpy(q.colour), weights), (gathered,)))
