"""The TU collection: from a mirror folder, or downloaded once; text files with one line per node, edge or graph.

Features are the node attributes; where there are none, the one-hot node labels, as PyG's `TUDataset` reads them, in a
tenth of its memory; where there are neither, the degree. Edge features are the edge attributes and the one-hot edge
labels.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from permlab.datasets.chunk import GraphChunk, make_chunk, pointer
from permlab.datasets.download import fetch, mirrored, unzip
from permlab.datasets.errors import DataError, DataUsageError
from permlab.datasets.sources.base import Progress, Reading, Source, file_digest

GRAPHS_A_CHUNK = 8192
MAX_TEXT = 1 << 29  # bytes that an archive may unpack to; the largest of the collection have about 400 MB
KINDS = ("attributes", "labels", "degree", "constant")  # of node features
MOST_DEGREES = 64  # columns of the one-hot degree; the last is for this degree and above
MAX_FEATURES, MAX_ENTRIES = 10_000, 1 << 28  # limits of one-hot labels: columns, and numbers in all
PARTS: dict[str, Any] = {  # the parts that are read, and their types
    "A": np.int32,
    "graph_indicator": np.int32,
    "graph_labels": np.int64,
    "graph_attributes": np.float32,
    "node_labels": np.int32,
    "node_attributes": np.float32,
    "edge_labels": np.int32,
    "edge_attributes": np.float32,
}


@dataclass(frozen=True)
class TU(Source):
    """Several regression targets are kept as target_0, target_1, … `features` are kinds of node features, joined by a
    plus sign; `auto` takes the first of attributes, labels and degree that there is.
    """

    summary: ClassVar[str] = "any TU data set by its name, as in tu:MUTAG"
    argument: ClassVar[str] = "name"

    name: str
    features: str = "auto"

    def __post_init__(self) -> None:
        kinds = self.features.split("+")
        if self.features != "auto" and (set(kinds) - set(KINDS) or len(set(kinds)) < len(kinds)):
            raise DataUsageError(
                f"tu:{self.name}: features={self.features!r}; choose auto, or {', '.join(KINDS)}, or some joined by +"
            )
        if len(self.name) > 100 or not self.name.replace("-", "").replace("_", "").isalnum():
            raise DataUsageError(f"{self.name!r} is not the name of a TU data set, such as MUTAG")

    def digest(self) -> str | None:
        archive = mirrored(f"{self.name}.zip")
        try:
            return file_digest(archive) if archive else None
        except PermissionError:
            raise DataError(f"{archive} cannot be read: permission denied") from None

    def read(self, workspace: Path, download: Progress) -> Reading:
        archive = mirrored(f"{self.name}.zip")
        if archive is None:
            archive = workspace / f"{self.name}.zip"
            fetch(_url(self.name), archive, download)
        return self._reading(_load(self.name, archive, workspace))

    def _reading(self, tables: dict[str, np.ndarray]) -> Reading:
        y, classification = self._targets(tables)
        graph, edges = self._graph_of_node(tables, len(y)), tables["A"]
        if len(edges) and edges.shape[1] != 2:
            raise DataError(f"tu:{self.name} has {edges.shape[1]} numbers in a line of edges, not 2")
        x, names = self._features(tables)
        if len(x) != len(graph):
            raise DataError(f"tu:{self.name} has {len(x)} lines of features for {len(graph)} nodes")
        edge_attr, edge_names = self._edge_features(tables)
        targets = ("class",) if classification else tuple(f"target_{i}" for i in range(y.shape[1]))
        return Reading(
            chunks=_chunks(x, graph, edges.reshape(-1, 2) - 1, y, edge_attr),
            feature_names=names,
            edge_feature_names=edge_names,
            task="classification" if classification else "regression",
            targets=targets,
            default_target=targets[0] if len(targets) > 1 else "",
            gaps=len(targets) > 1 and bool(np.isnan(y).any()),
            total=len(y),
            holdout=200 if self.name == "PROTEINS_full" else 0.2,
            classes=int(y.max()) + 1 if classification else 0,
        )

    def _targets(self, tables: dict[str, np.ndarray]) -> tuple[np.ndarray, bool]:
        """[G, T], and whether they are classes, counted from 0."""
        if "graph_attributes" in tables:
            y = tables["graph_attributes"]
        elif "graph_labels" in tables:
            y = np.unique(tables["graph_labels"], return_inverse=True)[1].reshape(tables["graph_labels"].shape)
        else:
            raise DataError(f"tu:{self.name} has neither graph labels nor graph attributes: there is no target")
        if not len(y):
            raise DataError(f"tu:{self.name} has no graphs")
        return y, y.shape[1] == 1 and "graph_attributes" not in tables

    def _features(self, tables: dict[str, np.ndarray]) -> tuple[np.ndarray, tuple[str, ...]]:
        """[n, r], and the names of the columns."""
        n = len(tables["graph_indicator"])
        there = ["degree", "constant"]
        there += [kind for kind in ("attributes", "labels") if len(tables.get(f"node_{kind}", ()))]
        first = next(kind for kind in KINDS if kind in there)
        parts: list[np.ndarray] = []
        names: list[str] = []
        for kind in (first if self.features == "auto" else self.features).split("+"):
            if kind not in there:
                raise DataUsageError(f"tu:{self.name} has no node {kind}; choose features= from {', '.join(there)}")
            if kind == "attributes":
                part, columns = tables["node_attributes"], None
            elif kind == "labels":
                part, columns = self._one_hot(tables["node_labels"], "node"), None
            elif kind == "degree":
                part, columns = self._degrees(tables["A"], n)
            else:
                part, columns = np.ones((n, 1), dtype=np.float32), None
            if parts and len(part) != len(parts[0]):
                raise DataError(f"tu:{self.name} has {len(part)} lines of node {kind} for {len(parts[0])} nodes")
            parts.append(part)
            names += columns or [f"{kind.removesuffix('s')}_{i}" for i in range(part.shape[1])]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1), tuple(names)

    def _edge_features(self, tables: dict[str, np.ndarray]) -> tuple[np.ndarray | None, tuple[str, ...]]:
        """[e, s] in the order of the lines of A, and the names of the columns."""
        edges, parts, names = len(tables["A"]), [], []
        if "edge_attributes" in tables:
            parts, names = [tables["edge_attributes"]], ["attribute"]
        if len(tables.get("edge_labels", ())):
            parts, names = [*parts, self._one_hot(tables["edge_labels"], "edge")], [*names, "label"]
        for part in parts:
            if len(part) != edges:
                raise DataError(f"tu:{self.name} has {len(part)} lines of edge features for {edges} edges")
        if not edges or not parts:
            return None, ()
        columns = [f"{kind}_{i}" for kind, part in zip(names, parts, strict=True) for i in range(part.shape[1])]
        return np.concatenate(parts, axis=1), tuple(columns)

    def _one_hot(self, labels: np.ndarray, of: str) -> np.ndarray:
        """[n, kinds of labels] → [n, columns], counted from the least label of each kind."""
        labels = labels.astype(np.int64)
        labels -= labels.min(axis=0)
        n, first = len(labels), pointer(labels.max(axis=0) + 1)  # the first column of every kind of label
        self._check_size(n, int(first[-1]), f"{of} labels up to {labels.max():,} for {n:,} {of}s")
        rows = np.zeros((n, first[-1]), dtype=np.float32)
        rows[np.arange(n)[:, None], labels + first[:-1]] = 1
        return rows

    def _degrees(self, edges: np.ndarray, n: int) -> tuple[np.ndarray, list[str]]:
        """The degree of every node, one-hot, [n, degrees]; if it is large, with log(1 + degree) as one more column.

        Both directions of an edge count once, loops not at all: as the graphs are stored.
        """
        src, dst = edges.reshape(-1, 2).T.astype(np.int64) - 1
        inside = (src != dst) & (src >= 0) & (dst >= 0) & (src < n) & (dst < n)  # others are refused later
        src, dst = src[inside], dst[inside]
        degree = np.bincount(np.unique(np.concatenate([src * n + dst, dst * n + src])) // max(n, 1), minlength=n)
        last = min(int(degree.max()), MOST_DEGREES)
        large = last < degree.max()
        self._check_size(n, last + 1 + large, f"degrees up to {degree.max():,} for {n:,} nodes")
        rows = np.zeros((n, last + 1 + large), dtype=np.float32)
        rows[np.arange(n), np.minimum(degree, last)] = 1
        names = [f"degree_{i}" for i in range(last + 1)]
        if large:
            rows[:, -1] = np.log1p(degree, dtype=np.float32)
            names = [*names[:-1], f"{names[-1]}_or_more", "log_degree"]
        return rows, names

    def _check_size(self, n: int, columns: int, what: str) -> None:
        """Refuse a one-hot matrix [n, columns] that would fill the memory."""
        if columns > MAX_FEATURES or n * columns > MAX_ENTRIES:
            raise DataError(
                f"tu:{self.name} has {what}: one-hot, these are more than {MAX_FEATURES:,} features or "
                f"{MAX_ENTRIES:,} numbers"
            )

    def _graph_of_node(self, tables: dict[str, np.ndarray], graphs: int) -> np.ndarray:
        """[n], ascending from 0."""
        graph = tables["graph_indicator"].reshape(-1) - 1
        if (np.diff(graph) < 0).any() or not len(graph) or graph[0] < 0 or graph[-1] != graphs - 1:
            last = int(graph[-1]) + 1 if len(graph) else 0
            raise DataError(f"tu:{self.name} has {graphs} targets for {last} graphs in ascending order")
        return graph


@dataclass(frozen=True)
class ProteinsFull(TU):
    """The paper's classification data: enzymes (TU label 2) against the rest."""

    summary: ClassVar[str] = "1,113 proteins, 29 attributes per node; enzyme or not"
    argument: ClassVar[str | None] = None  # type: ignore[assignment]

    name: str = field(default="PROTEINS_full", init=False)


def _chunks(
    x: np.ndarray, graph: np.ndarray, edges: np.ndarray, y: np.ndarray, edge_attr: np.ndarray | None
) -> Iterator[GraphChunk]:
    """`graph` [n] is the graph of every node, `edges` [e, 2] are rows of x, `edge_attr` [e, s] their features."""
    if len(edges) and not 0 <= edges.min() <= edges.max() < len(graph):
        raise DataError(f"an edge names a node that does not exist; there are {len(graph)}")
    owner = graph[edges[:, 0]]
    order = np.argsort(owner, kind="stable")
    edges, edge_attr = edges[order], None if edge_attr is None else edge_attr[order]
    node_ptr, edge_ptr = (pointer(np.bincount(of, minlength=len(y))) for of in (graph, owner))
    for start in range(0, len(y), GRAPHS_A_CHUNK):
        stop = min(start + GRAPHS_A_CHUNK, len(y))
        first, last = node_ptr[start], node_ptr[stop]
        inside = slice(edge_ptr[start], edge_ptr[stop])
        src, dst = edges[inside].T - first
        features = None if edge_attr is None else edge_attr[inside]
        counts, graph_id = np.diff(node_ptr[start : stop + 1]), np.arange(start, stop)
        yield make_chunk(x[first:last], counts, src, dst, y[start:stop], graph_id, edge_attr=features)


def _load(name: str, archive: Path, workspace: Path) -> dict[str, np.ndarray]:
    """Every part that exists, [lines, values]."""
    files = {part: f"{name}_{part}.txt" for part in PARTS}
    raw = workspace / "raw"
    unzip(archive, raw, set(files.values()), MAX_TEXT)
    for part in ("A", "graph_indicator"):
        if not (raw / files[part]).is_file():
            raise DataError(f"{archive} holds no {files[part]}: it is not the TU data set {name}")
    try:
        with warnings.catch_warnings(action="ignore"):  # for a file without lines
            return {part: _read(raw / file, PARTS[part]) for part, file in files.items() if (raw / file).is_file()}
    except ValueError as error:
        raise DataError(f"{archive} cannot be read as a TU data set: {str(error).splitlines()[0]}") from None


def _read(path: Path, kind: Any) -> np.ndarray:
    return np.loadtxt(path, kind, comments=None, delimiter=",", ndmin=2, encoding="ascii")


def _url(name: str) -> str:
    from torch_geometric.datasets import TUDataset

    return f"{TUDataset.url}/{name}.zip"
