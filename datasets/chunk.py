"""A run of graphs as flat arrays, and its form as an Arrow record batch.

One row per graph: `x: list<fixed_size_list<float32, r>>`, `edge_src` and `edge_dst: list<int32>` (both
directions, node ids local to the graph, sorted), `y: float32`, `graph_id: int64`, `group: int64`.
Graphs of one group are equal (the same molecule, say) and always stay on one side of a split.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from permlab.datasets.errors import DataError


@dataclass(frozen=True)
class GraphChunk:
    """G graphs with n nodes and e directed edges in all."""

    x: np.ndarray  # [n, r] float32
    node_ptr: np.ndarray  # [G + 1] int64
    src: np.ndarray  # [e] int32, local to the graph, sorted by graph, src, dst
    dst: np.ndarray  # [e] int32, local to the graph
    edge_ptr: np.ndarray  # [G + 1] int64
    y: np.ndarray  # [G] float32
    graph_id: np.ndarray  # [G] int64
    group: np.ndarray  # [G] int64

    def __len__(self) -> int:
        return len(self.y)

    @property
    def nbytes(self) -> int:
        return self.x.nbytes + self.src.nbytes + self.dst.nbytes


def pointer(counts: np.ndarray) -> np.ndarray:
    """Offsets [G + 1] of segments with these counts [G]."""
    ptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def make_chunk(
    x: np.ndarray,
    counts: np.ndarray,
    src: np.ndarray,
    dst: np.ndarray,
    y: np.ndarray,
    graph_id: np.ndarray,
    group: np.ndarray | None = None,
) -> GraphChunk:
    """Graphs of `counts` nodes each; `src`, `dst` index the rows of `x`, in any order.

    Edges are made undirected and simple: both directions, no loops (Â adds its own), no duplicates.
    """
    node_ptr = pointer(counts)
    n = len(x)
    if node_ptr[-1] != n or len(y) != len(counts):
        raise DataError(f"counts name {node_ptr[-1]} nodes and {len(counts)} graphs, data has {n} and {len(y)}")
    with np.errstate(over="ignore"):  # values too large for single precision become infinite, and are refused
        x, y = np.ascontiguousarray(x, dtype=np.float32), np.asarray(y).astype(np.float32)
    bad = ~(np.isfinite(x).all(axis=1))
    if bad.any():
        where = np.searchsorted(node_ptr, np.flatnonzero(bad)[0], side="right") - 1
        raise DataError(f"graph {graph_id[where]} has a feature that is not a finite number in single precision")
    if not np.isfinite(y).all():
        where = np.flatnonzero(~np.isfinite(y))[0]
        raise DataError(
            f"graph {graph_id[where]} has the target {y[where]}; targets must be finite in single precision"
        )
    src, dst = src.astype(np.int64), dst.astype(np.int64)
    if len(src) and (min(src.min(), dst.min()) < 0 or max(src.max(), dst.max()) >= n):
        raise DataError(f"an edge names a node that does not exist; there are {n}")
    graph_of = np.repeat(np.arange(len(counts)), counts)
    crossing = graph_of[src] != graph_of[dst]
    if crossing.any():
        raise DataError(f"graph {graph_id[graph_of[src[crossing][0]]]} has an edge into another graph")
    plain = src != dst
    src, dst = src[plain], dst[plain]
    key = np.unique(np.concatenate([src * n + dst, dst * n + src]))
    src, dst = key // max(n, 1), key % max(n, 1)
    owner = graph_of[src]
    start = node_ptr[owner]
    return GraphChunk(
        x=x,
        node_ptr=node_ptr,
        src=(src - start).astype(np.int32),
        dst=(dst - start).astype(np.int32),
        edge_ptr=pointer(np.bincount(owner, minlength=len(counts))),
        y=y,
        graph_id=np.asarray(graph_id, dtype=np.int64),
        group=np.asarray(graph_id if group is None else group, dtype=np.int64),
    )


def concatenate(chunks: Sequence[GraphChunk]) -> GraphChunk:
    """The graphs of several chunks, in order."""
    if len(chunks) == 1:
        return chunks[0]

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(chunk, name) for chunk in chunks])

    return GraphChunk(
        node_ptr=pointer(np.concatenate([np.diff(chunk.node_ptr) for chunk in chunks])),
        edge_ptr=pointer(np.concatenate([np.diff(chunk.edge_ptr) for chunk in chunks])),
        **{name: joined(name) for name in ("x", "src", "dst", "y", "graph_id", "group")},
    )


def to_arrow(chunk: GraphChunk) -> pa.RecordBatch:
    """The chunk as one record batch; no copy of its features or edges."""
    rows = pa.FixedSizeListArray.from_arrays(pa.array(chunk.x.reshape(-1)), chunk.x.shape[1])
    node_offsets = pa.array(chunk.node_ptr.astype(np.int32))
    edge_offsets = pa.array(chunk.edge_ptr.astype(np.int32))
    columns = {
        "x": pa.ListArray.from_arrays(node_offsets, rows),
        "edge_src": pa.ListArray.from_arrays(edge_offsets, pa.array(chunk.src)),
        "edge_dst": pa.ListArray.from_arrays(edge_offsets, pa.array(chunk.dst)),
        "y": pa.array(chunk.y),
        "graph_id": pa.array(chunk.graph_id),
        "group": pa.array(chunk.group),
    }
    return pa.RecordBatch.from_pydict(columns)


def from_arrow(batch: pa.RecordBatch) -> GraphChunk:
    """Flat views into a record batch (memory-mapped or not); features and edges are not copied."""

    def flat(array: pa.Array) -> np.ndarray:
        return array.to_numpy(zero_copy_only=True)

    x, src, dst = (batch.column(name) for name in ("x", "edge_src", "edge_dst"))
    return GraphChunk(
        x=flat(x.values.values).reshape(-1, x.values.type.list_size),
        node_ptr=flat(x.offsets).astype(np.int64),
        src=flat(src.values),
        dst=flat(dst.values),
        edge_ptr=flat(src.offsets).astype(np.int64),
        y=flat(batch.column("y")),
        graph_id=flat(batch.column("graph_id")),
        group=flat(batch.column("group")),
    )
