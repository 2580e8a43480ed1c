"""GraphStore: an open data set. Memory-mapped, so ten processes on a node share one copy in the page cache."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from permlab.datasets.batch import GraphBatch, NormalisedAdjacency
from permlab.datasets.cache import ensure, fetch
from permlab.datasets.catalogue import parse_name
from permlab.datasets.checked import checked_manifest
from permlab.datasets.chunk import GraphChunk, from_arrow, pointer
from permlab.datasets.errors import DataUsageError
from permlab.datasets.manifest import CacheBroken, Manifest, chosen_targets, open_array
from permlab.datasets.randomness import node_order
from permlab.datasets.splits import Split, split


class GraphStore:
    """G graphs with n nodes in all; every array is a view of a file.

    Flat arrays: `graph_id`, `group` [G], `node_ptr` [G + 1], and over all nodes Â as CSR (`a_ptr` [n + 1],
    `a_column` local to the graph, `a_value`) and `az` = Â·Z [n, r]; `edge_attr` [e, s], if there are edge features, in
    the order of the entries of Â without its diagonal. The raw graphs are in `shards`.

    `targets` are those that were chosen, `units` theirs; `y` is [G] with one of them, [G, T] with several.
    """

    def __init__(
        self, folder: Path, manifest: Manifest, device: torch.device | str = "cpu", target: str | None = None
    ) -> None:
        self.folder, self.manifest, self.device = folder, manifest, torch.device(device)
        self.target = target
        self.targets = chosen_targets(manifest, target)
        unit = dict(zip(manifest.targets, manifest.units, strict=True))
        self.units = tuple(unit[name] for name in self.targets)

    def to(self, device: torch.device | str) -> "GraphStore":
        """The same data set with all its features on another device."""
        same = torch.device(device) == self.device
        return self if same else GraphStore(self.folder, self.manifest, device, self.target)

    @classmethod
    def open(cls, name: str, target: str | None = None, *, build_missing: bool = False) -> "GraphStore":
        """Open a cached data set, checked; with `build_missing` build it first if it is missing or damaged.

        `target` is a name, names joined by +, or * for all; None: the data set's default.
        """
        parsed = parse_name(name)
        if build_missing:
            ensure(parsed.text)
        folder = fetch(parsed)
        return cls(folder, checked_manifest(folder, parsed.text), target=target)

    def __len__(self) -> int:
        return self.manifest.graphs

    def _array(self, name: str) -> np.ndarray:
        return np.asarray(open_array(self.folder, name, self.manifest.name))  # indexing a memmap takes longer

    @cached_property
    def node_ptr(self) -> np.ndarray:
        return self._array("node_ptr")

    @cached_property
    def y(self) -> np.ndarray:
        """[G], or [G, T] with T > 1 targets; NaN where a label is missing."""
        y = self._array("y")
        if list(self.targets) == self.manifest.targets:
            return y
        columns = [self.manifest.targets.index(name) for name in self.targets]
        return y[:, columns[0]].copy() if len(columns) == 1 else y[:, columns]

    @cached_property
    def edge_attr(self) -> np.ndarray | None:
        return self._array("edge_attr") if self.manifest.edge_feature_names else None

    @cached_property
    def graph_id(self) -> np.ndarray:
        return self._array("graph_id")

    @cached_property
    def group(self) -> np.ndarray:
        return self._array("group")

    def scaffolds(self) -> list[str]:
        """The Bemis–Murcko scaffold of every graph as SMILES, empty for a molecule without rings."""
        columns = [shard.scaffold for shard in self.shards]
        if any(column is None for column in columns):
            raise DataUsageError(
                f"{self.manifest.name} has no scaffolds, which are stored with molecules that were read from SMILES; "
                "rebuild it if it is older, or choose another split"
            )
        return [text for column in columns if column is not None for text in column.to_pylist()]

    @cached_property
    def a_ptr(self) -> np.ndarray:
        return self._array("a_ptr")

    @cached_property
    def a_column(self) -> np.ndarray:
        return self._array("a_column")

    @cached_property
    def a_value(self) -> np.ndarray:
        return self._array("a_value")

    @cached_property
    def az(self) -> np.ndarray:
        return self._array("az")

    @cached_property
    def shards(self) -> list[GraphChunk]:
        """The raw graphs (features, edges), one chunk per shard, as views of the mapped Arrow files."""
        return [from_arrow(self._record_batch(entry.file)) for entry in self.manifest.shards]

    def _record_batch(self, file: str) -> pa.RecordBatch:
        return pa.ipc.open_file(pa.memory_map(str(self.folder / file))).get_batch(0)

    def split(
        self,
        seed: int,
        holdout: int | float | None = None,
        validation: int | float = 0,
        validation_seed: int | None = None,
    ) -> Split:
        """Train, validation and holdout positions; the holdout's size is the data set's own unless given."""
        size = self.manifest.holdout if holdout is None else holdout
        return split(self.group, size, seed, validation, validation_seed)

    def orders(self, seeds: Sequence[int]) -> np.ndarray:
        """The node orders of all graphs that `batch` would draw from these seeds: [seeds, n], numbered in the graph."""
        start = np.repeat(self.node_ptr[:-1], np.diff(self.node_ptr))
        drawn = (node_order(self.graph_id, self.node_ptr, seed) - start for seed in seeds)
        return np.stack([order.astype(np.int32) for order in drawn])

    def batch(
        self,
        graphs: np.ndarray,
        permutation_seed: int | np.ndarray | None = None,
        orders: np.ndarray | None = None,
        step: int = 0,
    ) -> GraphBatch:
        """The graphs at these positions as one batch, by index arithmetic.

        With `permutation_seed`, the nodes of each graph are renumbered at random, in features and edges alike. The
        order depends on that seed (one, or one per graph; negative: keep the order) and the graph, not on the batch.
        With `orders`, drawn before, it names their row instead.
        """
        graphs = np.asarray(graphs, dtype=np.int64)
        if len(graphs) and not 0 <= graphs.min() <= graphs.max() < len(self):
            given = f"{graphs.min()} to {graphs.max()}"
            raise DataUsageError(f"graph positions run from 0 to {len(self) - 1}, got {given}")
        first = self.node_ptr[graphs]
        sizes = self.node_ptr[graphs + 1] - first
        if len(sizes) and (first.min() < 0 or sizes.min() < 0 or (first + sizes).max() >= len(self.a_ptr)):
            raise self.damaged()
        ptr = pointer(sizes)
        order = None if permutation_seed is None else self._permuted(graphs, ptr, permutation_seed, orders)
        return StoredBatch(self, graphs, first, sizes, ptr, order, step)

    def _permuted(
        self, graphs: np.ndarray, ptr: np.ndarray, seed: int | np.ndarray, orders: np.ndarray | None
    ) -> np.ndarray:
        """[n]: for every place of the batch, the node's number in its graph."""
        if orders is None:
            return node_order(self.graph_id[graphs], ptr, seed) - np.repeat(ptr[:-1], np.diff(ptr))
        row = seed if isinstance(seed, np.ndarray) else np.full(graphs.shape, seed)
        fits = orders.shape[1] == self.node_ptr[-1] and row.shape == graphs.shape
        if not fits or (len(row) and not 0 <= row.min() <= row.max() < len(orders)):
            raise DataUsageError(f"orders {orders.shape} do not have these rows, or belong to another data set")
        sizes = np.diff(ptr)
        place = np.arange(ptr[-1]) + np.repeat(self.node_ptr[graphs] - ptr[:-1], sizes)
        return orders[np.repeat(row, sizes), place]

    def damaged(self) -> CacheBroken:
        """The error to raise if the flat arrays contradict each other."""
        files = "node_ptr.npy, a_ptr.npy, a_column.npy, a_value.npy, az.npy or edge_attr.npy"
        return CacheBroken(f"{self.folder}: {files} is damaged", self.manifest.name)

    def raw_features(self, node: np.ndarray) -> np.ndarray:
        """Z of these nodes of the data set, from the shards: [n] → [n, r]."""
        rows = np.empty((len(node), len(self.manifest.feature_names)), dtype=np.float32)
        start = 0
        for shard in self.shards:
            here = (node >= start) & (node < start + len(shard.x))
            rows[here] = shard.x[node[here] - start]
            start += len(shard.x)
        if len(node) and node.max() >= start:
            raise self.damaged()
        return rows

    @torch.inference_mode(False)  # a batch caches it, and it may be trained on later
    def tensor(self, array: np.ndarray) -> torch.Tensor:
        """On the store's device, by a copy that does not block."""
        tensor = torch.from_numpy(array)
        return tensor if self.device.type == "cpu" else tensor.to(self.device, non_blocking=True)

    @cached_property
    def features(self) -> torch.Tensor:
        """All of Â·Z on the device: batches are gathered there."""
        return self.tensor(self.az)


class StoredBatch(GraphBatch):
    """A batch of a store's graphs. Parts that a model does not ask for are not built."""

    def __init__(
        self,
        store: GraphStore,
        graphs: np.ndarray,
        first: np.ndarray,
        sizes: np.ndarray,
        ptr: np.ndarray,
        order: np.ndarray | None,
        step: int,
    ) -> None:
        self._store, self._first, self._order, self.sizes, self.step = store, first, order, sizes, step
        self.graph_id, self._bounds = store.graph_id[graphs], ptr
        self.ptr, self.y = store.tensor(ptr), store.tensor(store.y[graphs])

    @cached_property
    def _node(self) -> np.ndarray:
        """[n]: the nodes' places in the data set."""
        start = np.repeat(self._first, self.sizes)
        if self._order is not None:
            return start + self._order
        return start + np.arange(len(start)) - np.repeat(self._bounds[:-1], self.sizes)

    @cached_property
    def x(self) -> torch.Tensor:  # type: ignore[override]
        return self._store.tensor(self._store.raw_features(self._node))

    @cached_property
    @torch.inference_mode(False)
    def az(self) -> torch.Tensor:
        node = torch.from_numpy(self._node)
        return self._store.features.index_select(0, node.to(self._store.device, non_blocking=True))

    @cached_property
    def _entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Â as CSR on the host; a row keeps the order of its entries, so that permuted graphs give the same sums."""
        store, node, n = self._store, self._node, len(self._node)
        begin = store.a_ptr[node]
        degree = store.a_ptr[node + 1] - begin
        if n and (begin.min() < 0 or degree.min() < 0 or (begin + degree).max() > len(store.a_column)):
            raise store.damaged()
        ptr = pointer(degree)
        entry = np.arange(ptr[-1]) + np.repeat(begin - ptr[:-1], degree)
        column, start = store.a_column[entry], np.repeat(np.repeat(self._bounds[:-1], self.sizes), degree)
        if len(column) and ((column < 0) | (column >= np.repeat(np.repeat(self.sizes, self.sizes), degree))).any():
            raise store.damaged()
        column = column + start
        if self._order is not None:
            place = np.empty(n, dtype=np.int64)
            place[self._order + np.repeat(self._bounds[:-1], self.sizes)] = np.arange(n)
            column = place[column]
        return ptr.astype(np.int32), column.astype(np.int32), store.a_value[entry]

    @cached_property
    def adjacency(self) -> NormalisedAdjacency:
        ptr, column, value = (self._store.tensor(part) for part in self._entries)
        return NormalisedAdjacency(ptr, column, value)

    @cached_property
    def edge_index(self) -> torch.Tensor:  # type: ignore[override]
        """The entries of Â without its diagonal: stored graphs have both directions of every edge, and no loops."""
        ptr, column, _ = self._entries
        row = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
        edges = row != column
        return self._store.tensor(np.stack([row[edges], column[edges]]))

    @cached_property
    def edge_attr(self) -> torch.Tensor | None:  # type: ignore[override]
        """In the order of `edge_index`. A row of Â has one entry on the diagonal, so node v's edges begin at
        a_ptr[v] − v in the data set.
        """
        features, store, node = self._store.edge_attr, self._store, self._node
        if features is None:
            return None
        ptr = self._entries[0].astype(np.int64)
        degree, place = np.diff(ptr) - 1, np.arange(len(node))
        edges = int(ptr[-1]) - len(node)
        if len(node) and (degree.min() < 0 or edges != self.edge_index.shape[1]):
            raise store.damaged()
        edge = np.arange(edges) + np.repeat((store.a_ptr[node] - node) - (ptr[:-1] - place), degree)
        if edges and not 0 <= edge.min() <= edge.max() < len(features):
            raise store.damaged()
        return store.tensor(features.take(edge, axis=0))
