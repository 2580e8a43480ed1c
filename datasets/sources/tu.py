"""The TU collection, read by PyG's `TUDataset`: from a mirror folder, or downloaded once.

Features are the node attributes; where there are none, the one-hot node labels; where there are neither, a
constant 1. PyG holds the whole collection in memory while it reads.
"""

import os
from collections.abc import Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from permlab.datasets.chunk import GraphChunk, make_chunk
from permlab.datasets.download import fetch, unzip
from permlab.datasets.errors import DataError, DataUsageError
from permlab.datasets.sources.base import Progress, Reading, Source, file_digest

GRAPHS_A_CHUNK = 8192


@dataclass(frozen=True)
class TU(Source):
    """`target` picks a column where the graphs have several regression targets."""

    summary: ClassVar[str] = "any TU data set by its name, as in tu:MUTAG"
    argument: ClassVar[str] = "name"

    name: str
    target: int = 0

    def __post_init__(self) -> None:
        if not self.name.replace("-", "").replace("_", "").isalnum():
            raise DataUsageError(f"{self.name!r} is not the name of a TU data set, such as MUTAG")

    def digest(self) -> str | None:
        archive = _mirrored(self.name)
        try:
            return file_digest(archive) if archive else None
        except PermissionError:
            raise DataError(f"{archive} cannot be read: permission denied") from None

    def read(self, workspace: Path, download: Progress) -> Reading:
        archive = _mirrored(self.name)
        if archive is None:
            archive = workspace / f"{self.name}.zip"
            fetch(_url(self.name), archive, download)
        return self._reading(_load(self.name, archive, workspace))

    def _reading(self, data: Any) -> Reading:
        flat, slices = data._data, data.slices
        if flat.y is None:
            raise DataError(f"tu:{self.name} has neither graph labels nor graph attributes: there is no target")
        y = flat.y.numpy()
        classification = y.ndim == 1 and np.issubdtype(y.dtype, np.integer)
        if y.ndim == 2:
            if not 0 <= self.target < y.shape[1]:
                raise DataUsageError(f"tu:{self.name} has {y.shape[1]} targets; target={self.target} is not among them")
            y = y[:, self.target]
        attributes, labels = data.num_node_attributes, data.num_node_labels
        if attributes:
            features = flat.x[:, :attributes].numpy()
        elif labels:
            features = flat.x.numpy()
        else:
            features = np.ones((int(slices["x"][-1]) if "x" in slices else flat.num_nodes, 1), dtype=np.float32)
        kind = "attribute" if attributes else "label" if labels else "constant"
        node_ptr = slices["x"].numpy() if "x" in slices else _node_ptr(data)
        edge_ptr = slices["edge_index"].numpy()
        edge_ptr = np.append(edge_ptr, np.full(max(0, len(y) + 1 - len(edge_ptr)), edge_ptr[-1]))  # none at the end
        if len(node_ptr) != len(y) + 1 or len(edge_ptr) != len(y) + 1 or node_ptr[-1] != len(features):
            raise DataError(f"tu:{self.name} has {len(y)} targets for {len(node_ptr) - 1} graphs; its files do not fit")
        return Reading(
            chunks=_chunks(features, node_ptr, flat.edge_index.numpy(), edge_ptr, y),
            feature_names=tuple(f"{kind}_{i}" for i in range(features.shape[1])),
            task="classification" if classification else "regression",
            target="class" if classification else f"target_{self.target}",
            total=len(y),
            holdout=200 if self.name == "PROTEINS_full" else 0.2,
            classes=int(y.max()) + 1 if classification else 0,
        )


@dataclass(frozen=True)
class ProteinsFull(TU):
    """The paper's classification data: enzymes (TU label 2) against the rest."""

    summary: ClassVar[str] = "1,113 proteins, 29 attributes a node; enzyme or not"
    argument: ClassVar[str | None] = None  # type: ignore[assignment]

    name: str = field(default="PROTEINS_full", init=False)


def _chunks(
    x: np.ndarray, node_ptr: np.ndarray, edges: np.ndarray, edge_ptr: np.ndarray, y: np.ndarray
) -> Iterator[GraphChunk]:
    for start in range(0, len(y), GRAPHS_A_CHUNK):
        stop = min(start + GRAPHS_A_CHUNK, len(y))
        first, last = node_ptr[start], node_ptr[stop]
        counts = np.diff(node_ptr[start : stop + 1])
        edge_counts = np.diff(edge_ptr[start : stop + 1])
        offset = np.repeat(np.cumsum(counts) - counts, edge_counts)
        src, dst = edges[:, edge_ptr[start] : edge_ptr[stop]] + offset
        yield make_chunk(x[first:last], counts, src, dst, y[start:stop], np.arange(start, stop))


def _node_ptr(data: Any) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([int(graph.num_nodes) for graph in data])])


def _load(name: str, archive: Path, workspace: Path) -> Any:
    from torch_geometric.datasets import TUDataset

    raw = workspace / name / "raw"
    unzip(archive, raw)
    for part in ("A", "graph_indicator"):
        if not (raw / f"{name}_{part}.txt").is_file():
            raise DataError(f"{archive} holds no {name}_{part}.txt: it is not the TU data set {name}")
    try:
        with redirect_stderr(StringIO()):  # PyG announces what it does
            return TUDataset(str(workspace), name, use_node_attr=True)
    except (ValueError, IndexError, RuntimeError, AttributeError, AssertionError) as error:
        raise DataError(f"{archive} cannot be read as a TU data set: {str(error).splitlines()[0]}") from None


def _mirrored(name: str) -> Path | None:
    mirror = os.environ.get("PERMLAB_MIRROR")
    if not mirror:
        return None
    folder = Path(mirror)
    archive = folder / f"{name}.zip"
    try:
        if folder.is_dir():
            return archive if archive.is_file() else None
    except PermissionError:
        pass
    raise DataError(f"PERMLAB_MIRROR={mirror} is not a folder that can be read; mend or unset it")


def _url(name: str) -> str:
    from torch_geometric.datasets import TUDataset

    return f"{TUDataset.url}/{name}.zip"
