"""GraphStore: an open data set. Memory-mapped, so ten processes on a node share one copy in the page cache."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from permlab.datasets.assembly import assemble, assemble_permuted, bounds, features, nodes, touch
from permlab.datasets.batch import GraphBatch
from permlab.datasets.cache import ensure, fetch
from permlab.datasets.catalogue import parse_name
from permlab.datasets.chunk import GraphChunk, from_arrow
from permlab.datasets.colours import Colours, colours_of
from permlab.datasets.errors import DataUsageError
from permlab.datasets.manifest import CacheBroken, Manifest, open_array, read_manifest, rebuild_hint
from permlab.datasets.randomness import node_order
from permlab.datasets.splits import Split, split


class GraphStore:
    """G graphs with n nodes in all; every array is a view of a file.

    Flat arrays: `y`, `graph_id`, `group` [G], `node_ptr` [G + 1], and over all nodes Â as CSR (`a_ptr` [n + 1],
    `a_column` local to the graph, `a_value`) and `az` = Â·Z [n, r]. The raw graphs are in `shards`.
    """

    def __init__(self, folder: Path, manifest: Manifest, device: torch.device | str = "cpu") -> None:
        self.folder, self.manifest, self.device = folder, manifest, torch.device(device)

    def to(self, device: torch.device | str) -> "GraphStore":
        """The same data set with its features on another device, whole."""
        return self if torch.device(device) == self.device else GraphStore(self.folder, self.manifest, device)

    @classmethod
    def open(cls, name: str, *, build_missing: bool = False) -> "GraphStore":
        """Open a cached data set; with `build_missing` build it first if need be."""
        parsed = parse_name(name)
        if build_missing:
            ensure(parsed.text)
        folder = fetch(parsed)
        return cls(folder, read_manifest(folder, parsed.text))

    def __len__(self) -> int:
        return self.manifest.graphs

    def _array(self, name: str) -> np.ndarray:
        return np.asarray(open_array(self.folder, name, self.manifest.name))  # no memmap: indexing those takes longer

    @cached_property
    def node_ptr(self) -> np.ndarray:
        return self._array("node_ptr")

    @cached_property
    def y(self) -> np.ndarray:
        return self._array("y")

    @cached_property
    def graph_id(self) -> np.ndarray:
        return self._array("graph_id")

    @cached_property
    def group(self) -> np.ndarray:
        return self._array("group")

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
        """The raw graphs (features, edges), a chunk a shard, as views of the mapped Arrow files."""
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
        """What `batch` would draw from these seeds, for all graphs: [seeds, n], a node by its number in its graph."""
        start = np.repeat(self.node_ptr[:-1], np.diff(self.node_ptr))
        drawn = (node_order(self.graph_id, self.node_ptr, seed) - start for seed in seeds)
        return np.stack([order.astype(np.int32) for order in drawn])

    def colours(self, graphs: np.ndarray) -> Colours | None:
        """Those of these graphs' nodes, if they are few: see `batch`. For what is computed on the host."""
        if self.device.type != "cpu":
            return None
        try:
            return colours_of(graphs, self.az, self.node_ptr, self.a_ptr, self.a_column, self.a_value)
        except ValueError:
            raise self._damaged() from None

    def batch(
        self,
        graphs: np.ndarray,
        permutation_seed: int | np.ndarray | None = None,
        orders: np.ndarray | None = None,
        colours: Colours | None = None,
    ) -> GraphBatch:
        """The graphs at these positions as one batch, by loops over the flat arrays.

        With `permutation_seed`, each graph's nodes are renumbered at random, in features and adjacency alike. The
        order depends on that seed (one, or one a graph; negative: keep its order) and the graph, not on the batch.
        With `orders`, drawn before, it names the row of those instead.
        A row of Â keeps the order of its entries, so that sums over neighbours are the same to the last bit.
        With `colours` of (at least) these graphs the batch has those of its nodes.
        """
        graphs = np.asarray(graphs, dtype=np.int64)
        try:
            ptr, entry_ptr = bounds(graphs, self.node_ptr, self.a_ptr, len(self.a_column))
        except IndexError:
            given = f"{graphs.min()} to {graphs.max()}"
            raise DataUsageError(f"graph positions run from 0 to {len(self) - 1}, got {given}") from None
        except ValueError:
            raise self._damaged() from None
        if len(self.az) + 1 != len(self.a_ptr) or len(self.a_value) != len(self.a_column):
            raise self._damaged()
        host = self.device.type == "cpu"
        if host and (permutation_seed is not None or colours is not None):  # whole graphs are read ahead by the machine
            rows = self.az.reshape(-1) if colours is None else colours.second
            touch(graphs, self.node_ptr, self.a_ptr, self.a_column, self.a_value, rows)
        flat = (graphs, ptr, entry_ptr, self.node_ptr, self.a_ptr, self.a_column, self.a_value)
        permuted = None if permutation_seed is None else self._permuted(graphs, ptr, permutation_seed, orders)
        node = None
        try:
            if permuted is None:
                a_ptr, column, value = assemble(*flat)
            else:
                node, a_ptr, column, value = assemble_permuted(*flat, *permuted)
        except ValueError:
            raise self._damaged() from None
        if node is None and colours is None and host:
            coloured, x = None, torch.from_numpy(features(graphs, ptr, self.node_ptr, self.az))
        else:
            node = nodes(graphs, ptr, self.node_ptr) if node is None else node
            coloured = colours.of(node) if colours else None
            x = coloured.rows() if coloured else self._features.index_select(0, self._tensor(node))
        return GraphBatch(
            x=x,
            ptr=self._tensor(ptr),
            a_ptr=self._tensor(a_ptr),
            a_column=self._tensor(column),
            a_value=self._tensor(value),
            y=self._tensor(self.y[graphs]),
            colours=coloured,
        )

    def _permuted(
        self, graphs: np.ndarray, ptr: np.ndarray, seed: int | np.ndarray, orders: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Orders of nodes, and of every graph its row of them and where it begins there."""
        if orders is None:
            order = node_order(self.graph_id[graphs], ptr, seed) - np.repeat(ptr[:-1], np.diff(ptr))
            return order[None], np.zeros_like(graphs), ptr
        row = seed if isinstance(seed, np.ndarray) else np.full(graphs.shape, seed)
        fits = orders.shape[1] == self.node_ptr[-1] and row.shape == graphs.shape
        if not fits or (len(row) and not 0 <= row.min() <= row.max() < len(orders)):
            raise DataUsageError(f"orders {orders.shape} do not have these rows, or are another data set's")
        return orders, row, self.node_ptr[graphs]

    def _damaged(self) -> CacheBroken:
        hint = rebuild_hint(self.manifest.name)
        return CacheBroken(
            f"{self.folder}: node_ptr.npy, a_ptr.npy, a_column.npy, a_value.npy or az.npy is damaged; {hint}"
        )

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(array)
        return tensor if self.device.type == "cpu" else tensor.to(self.device, non_blocking=True)

    @cached_property
    def _features(self) -> torch.Tensor:
        """Â·Z on the device. Indices are reckoned on the host."""
        return self._tensor(self.az)
