"""A run of graphs as flat arrays, and its form as an Arrow record batch.

One row per graph: `x: list<fixed_size_list<float32, r>>`, `edge_src` and `edge_dst: list<int32>` (both
directions, node ids local to the graph, sorted), `y: float32`, `graph_id: int64`, `group: int64`. With T > 1 targets
`y: fixed_size_list<float32, T>`; with edge features also `edge_attr: list<fixed_size_list<float32, s>>`; molecules
may have `scaffold: string`. Graphs of one group are equal (the same molecule, say) and stay on one side of a split.
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
    y: np.ndarray  # [G] float32, or [G, T] with T > 1 targets; NaN where a label is missing
    graph_id: np.ndarray  # [G] int64
    group: np.ndarray  # [G] int64
    edge_attr: np.ndarray | None = None  # [e, s] float32, in the order of src and dst
    scaffold: pa.StringArray | None = None  # [G], of molecules: Bemis–Murcko, as SMILES; empty without rings

    def __len__(self) -> int:
        return len(self.y)

    @property
    def nbytes(self) -> int:
        edge_attr = 0 if self.edge_attr is None else self.edge_attr.nbytes
        return self.x.nbytes + self.src.nbytes + self.dst.nbytes + edge_attr


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
    edge_attr: np.ndarray | None = None,
    scaffold: Sequence[str] | None = None,
) -> GraphChunk:
    """Graphs of `counts` nodes each; `src`, `dst` [E] index the rows of `x`, in any order; y is [G], [G, 1] or [G, T].
    A source gives `scaffold` [G] in all its chunks or in none.

    Edges are made undirected and simple: both directions, no loops (Â adds its own), no duplicates. Of `edge_attr`
    [E, s], a direction keeps the row of the first edge given in it, or else of the first edge in the opposite one.
    """
    node_ptr = pointer(counts)
    n = len(x)
    if node_ptr[-1] != n or len(y) != len(counts):
        raise DataError(f"counts name {node_ptr[-1]} nodes and {len(counts)} graphs, data has {n} and {len(y)}")
    if scaffold is not None and len(scaffold) != len(y):
        raise DataError(f"there are {len(y)} graphs and {len(scaffold)} scaffolds")
    with np.errstate(over="ignore"):  # values too large for single precision become infinite, and are refused
        x, y = np.ascontiguousarray(x, dtype=np.float32), np.asarray(y).astype(np.float32)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    bad = ~(np.isfinite(x).all(axis=1))
    if bad.any():
        where = np.searchsorted(node_ptr, np.flatnonzero(bad)[0], side="right") - 1
        raise DataError(f"graph {graph_id[where]} has a feature that is not a finite number in single precision")
    if np.isinf(y).any():
        at = tuple(np.argwhere(np.isinf(y))[0])
        raise DataError(f"graph {graph_id[at[0]]} has the target {y[at]}; targets must be finite in single precision")
    src, dst = src.astype(np.int64), dst.astype(np.int64)
    if len(src) and (min(src.min(), dst.min()) < 0 or max(src.max(), dst.max()) >= n):
        raise DataError(f"an edge names a node that does not exist; there are {n}")
    graph_of = np.repeat(np.arange(len(counts)), counts)
    crossing = graph_of[src] != graph_of[dst]
    if crossing.any():
        raise DataError(f"graph {graph_id[graph_of[src[crossing][0]]]} has an edge into another graph")
    if edge_attr is not None:
        edge_attr = _edge_features(edge_attr, graph_id, graph_of[src])
    plain = src != dst
    src, dst = src[plain], dst[plain]
    both = np.concatenate([src * n + dst, dst * n + src])
    if edge_attr is None:
        key = np.unique(both)
    else:
        key, first = np.unique(both, return_index=True)  # the first of equal keys: a given direction before its reverse
        edge_attr = edge_attr[plain][first % max(len(src), 1)]
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
        edge_attr=edge_attr,
        scaffold=None if scaffold is None else pa.array(scaffold, pa.string()),
    )


def _edge_features(edge_attr: np.ndarray, graph_id: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """[E, s] in single precision, checked; `owner` [E] is the graph of every edge."""
    if len(edge_attr) != len(owner):
        raise DataError(f"there are {len(owner)} edges and {len(edge_attr)} rows of edge features")
    with np.errstate(over="ignore"):
        edge_attr = np.ascontiguousarray(edge_attr, dtype=np.float32)
    bad = ~np.isfinite(edge_attr).all(axis=1)
    if bad.any():
        where = graph_id[owner[bad][0]]
        raise DataError(f"graph {where} has an edge feature that is not a finite number in single precision")
    return edge_attr


def concatenate(chunks: Sequence[GraphChunk]) -> GraphChunk:
    """The graphs of several chunks, in order."""
    if len(chunks) == 1:
        return chunks[0]

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(chunk, name) for chunk in chunks])

    return GraphChunk(
        node_ptr=pointer(np.concatenate([np.diff(chunk.node_ptr) for chunk in chunks])),
        edge_ptr=pointer(np.concatenate([np.diff(chunk.edge_ptr) for chunk in chunks])),
        edge_attr=None if chunks[0].edge_attr is None else joined("edge_attr"),
        scaffold=None if chunks[0].scaffold is None else pa.concat_arrays([chunk.scaffold for chunk in chunks]),
        **{name: joined(name) for name in ("x", "src", "dst", "y", "graph_id", "group")},
    )


def to_arrow(chunk: GraphChunk) -> pa.RecordBatch:
    """The chunk as one record batch; no copy of its features or edges."""
    node_offsets = pa.array(chunk.node_ptr.astype(np.int32))
    edge_offsets = pa.array(chunk.edge_ptr.astype(np.int32))
    columns = {
        "x": pa.ListArray.from_arrays(node_offsets, _rows(chunk.x)),
        "edge_src": pa.ListArray.from_arrays(edge_offsets, pa.array(chunk.src)),
        "edge_dst": pa.ListArray.from_arrays(edge_offsets, pa.array(chunk.dst)),
        "y": pa.array(chunk.y) if chunk.y.ndim == 1 else _rows(chunk.y),
        "graph_id": pa.array(chunk.graph_id),
        "group": pa.array(chunk.group),
    }
    if chunk.edge_attr is not None:
        columns["edge_attr"] = pa.ListArray.from_arrays(edge_offsets, _rows(chunk.edge_attr))
    if chunk.scaffold is not None:
        columns["scaffold"] = chunk.scaffold
    return pa.RecordBatch.from_pydict(columns)


def _rows(array: np.ndarray) -> pa.Array:
    """[n, r] as fixed_size_list<float32, r>."""
    return pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[1])


def from_arrow(batch: pa.RecordBatch) -> GraphChunk:
    """Flat views into a record batch (memory-mapped or not); features and edges are not copied."""

    def flat(array: pa.Array) -> np.ndarray:
        return array.to_numpy(zero_copy_only=True)

    def matrix(rows: pa.Array) -> np.ndarray:
        return flat(rows.values).reshape(-1, rows.type.list_size)

    y = batch.column("y")
    x, src, dst = (batch.column(name) for name in ("x", "edge_src", "edge_dst"))
    return GraphChunk(
        x=matrix(x.values),
        node_ptr=flat(x.offsets).astype(np.int64),
        src=flat(src.values),
        dst=flat(dst.values),
        edge_ptr=flat(src.offsets).astype(np.int64),
        y=matrix(y) if pa.types.is_fixed_size_list(y.type) else flat(y),
        graph_id=flat(batch.column("graph_id")),
        group=flat(batch.column("group")),
        edge_attr=matrix(batch.column("edge_attr").values) if "edge_attr" in batch.schema.names else None,
        scaffold=batch.column("scaffold") if "scaffold" in batch.schema.names else None,
    )
