"""Writes a stream of chunks as Arrow shards, and Â and Â·Z as flat arrays; memory is bounded by one shard."""

from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from permlab.datasets.adjacency import normalised_adjacency
from permlab.datasets.chunk import GraphChunk, concatenate, to_arrow
from permlab.datasets.manifest import FileEntry
from permlab.datasets.sources.base import file_digest

SHARD_BYTES = 64 << 20


class GrowingArray:
    """A `.npy` file that grows by blocks of rows; its header is completed on close."""

    def __init__(self, path: Path, dtype: type[np.generic], *trailing: int) -> None:
        self.path, self.dtype, self.trailing, self.rows = path, np.dtype(dtype), trailing, 0
        self.file = path.open("wb")
        self._write_header()

    def append(self, block: np.ndarray) -> None:
        self.file.write(np.ascontiguousarray(block, dtype=self.dtype).data)
        self.rows += len(block)

    def close(self) -> None:
        self.file.seek(0)
        self._write_header()  # NumPy pads the header, so the row count can be rewritten in place
        self.file.close()

    def _write_header(self) -> None:
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.rows, *self.trailing)}
        np.lib.format.write_array_header_1_0(self.file, header)


class ShardWriter:
    """`append` chunks, then `close` for the list of files and counts."""

    def __init__(
        self, folder: Path, features: int, targets: int, edge_features: int, shard_bytes: int = SHARD_BYTES
    ) -> None:
        self.folder, self.shard_bytes = folder, shard_bytes
        self.pending: list[GraphChunk] = []
        self.shards: list[FileEntry] = []
        self.graphs = self.nodes = self.edges = self.max_nodes = 0
        self.min_nodes = np.iinfo(np.int64).max
        self.arrays = {
            "node_ptr": GrowingArray(folder / "node_ptr.npy", np.int64),
            "a_ptr": GrowingArray(folder / "a_ptr.npy", np.int64),
            "a_column": GrowingArray(folder / "a_column.npy", np.int32),
            "a_value": GrowingArray(folder / "a_value.npy", np.float32),
            "az": GrowingArray(folder / "az.npy", np.float32, features),
            "y": GrowingArray(folder / "y.npy", np.float32, *([targets] if targets > 1 else [])),
            "graph_id": GrowingArray(folder / "graph_id.npy", np.int64),
            "group": GrowingArray(folder / "group.npy", np.int64),
        }
        if edge_features:
            self.arrays["edge_attr"] = GrowingArray(folder / "edge_attr.npy", np.float32, edge_features)
        self.entries = 0  # entries of Â so far
        for name in ("node_ptr", "a_ptr"):
            self.arrays[name].append(np.zeros(1))

    def append(self, chunk: GraphChunk) -> None:
        counts = np.diff(chunk.node_ptr)
        adjacency = normalised_adjacency(chunk)
        self.arrays["node_ptr"].append(self.nodes + chunk.node_ptr[1:])
        self.arrays["a_ptr"].append(self.entries + np.cumsum(adjacency.degree))
        self.arrays["a_column"].append(adjacency.column)
        self.arrays["a_value"].append(adjacency.value)
        self.arrays["az"].append(adjacency.az)
        for name in ("y", "graph_id", "group"):
            self.arrays[name].append(getattr(chunk, name))
        if chunk.edge_attr is not None:
            self.arrays["edge_attr"].append(chunk.edge_attr)  # edges are sorted as the entries of Â are
        self.entries += len(adjacency.column)
        self.graphs += len(chunk)
        self.nodes += len(chunk.x)
        self.edges += len(chunk.src)
        self.max_nodes = max(self.max_nodes, int(counts.max()))
        self.min_nodes = min(self.min_nodes, int(counts.min()))
        self.pending.append(chunk)
        if sum(part.nbytes for part in self.pending) >= self.shard_bytes:
            self._flush()

    def close(self) -> tuple[list[FileEntry], list[FileEntry]]:
        """Finish all files; returns the entries of the shards and of the arrays."""
        self._flush()
        for array in self.arrays.values():
            array.close()
        return self.shards, [entry_of(array.path) for array in self.arrays.values()]

    def _flush(self) -> None:
        if not self.pending:
            return
        batch = to_arrow(concatenate(self.pending))
        path = self.folder / f"shard-{len(self.shards):05d}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        self.shards.append(entry_of(path, graphs=batch.num_rows))
        self.pending = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for array in self.arrays.values():
            array.file.close()


def entry_of(path: Path, graphs: int = 0) -> FileEntry:
    return FileEntry(path.name, path.stat().st_size, file_digest(path), graphs)
