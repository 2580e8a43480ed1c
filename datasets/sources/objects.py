"""Graph objects of PyG to chunks: any iterable of `torch_geometric.data.Data`, read once, in bounded memory.

    x          [n, r] or [n]   none: a constant 1. One column of whole numbers below 256: one-hot
    edge_index [2, E]
    edge_attr  [E, s] or [E]   or none; as x
    y          a number, [T] or [1, T]; NaN where a label is missing

One target of whole numbers is a class, counted from 0 in the order of its values; targets of 0 and 1 alone are classes
too; anything else is a regression. What a number means may depend on graphs that come later, so the graphs are first
laid down in flat files, then encoded.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from permlab.datasets.chunk import GraphChunk, make_chunk, pointer
from permlab.datasets.errors import DataError
from permlab.datasets.sources.base import Reading

GRAPHS_A_CHUNK, ROWS_A_CHUNK = 4096, 500_000  # rows: nodes and edges
MOST_LABELS = 256  # one column of whole numbers below this is one-hot
MOST_CLASSES = 1000  # a target with more different whole numbers is a quantity
FACTS = ("task", "targets", "units", "default_target", "holdout")


def read_objects(graphs: Iterable[Any], workspace: Path, label: str, facts: Mapping[str, Any]) -> Reading:
    """The graphs as a Reading. `facts` (task, targets, units, default_target, holdout) go before what is inferred."""
    _check_facts(facts, label)
    survey = _Survey(label)
    files = list(survey.lay_down(graphs, workspace))
    if not survey.graphs:
        raise DataError(f"{label} has no graphs")
    task = facts.get("task") or survey.task
    classes = survey.classes(task)
    names = tuple(facts.get("targets") or survey.target_names(task))
    if len(names) != survey.targets:
        raise DataError(f"{label} names {len(names)} targets, but its graphs have {survey.targets}")
    return Reading(
        chunks=_chunks(files, survey, classes),
        feature_names=survey.x.names or ("constant_0",),
        edge_feature_names=survey.edge_attr.names,
        task=task,
        targets=names,
        units=tuple(facts.get("units") or ()),
        default_target=facts.get("default_target", ""),
        gaps=survey.gaps,
        total=survey.graphs,
        holdout=facts.get("holdout", 0.2),
        classes=0 if task == "regression" else 2 if classes is None else len(classes),
    )


@dataclass
class _Features:
    """What all rows of x, or of edge_attr, have in common; `width` is -1 until a row is seen, 0 if there are none."""

    prefix: str
    width: int = -1
    whole: bool = True
    least: int = 0
    most: int = 0

    def add(self, values: np.ndarray | None, graph: str) -> None:
        width = 0 if values is None else values.shape[1]
        if self.width not in (-1, width):
            raise DataError(f"{graph} has {width} columns in {self.prefix}, the graphs before it have {self.width}")
        self.width = width
        if values is None or not values.size:
            return
        self.whole = self.whole and values.dtype.kind in "iu"
        if self.whole:
            self.least, self.most = min(self.least, int(values.min())), max(self.most, int(values.max()))

    @property
    def labels(self) -> bool:
        return self.width == 1 and self.whole and self.least >= 0 and self.most < MOST_LABELS

    @property
    def names(self) -> tuple[str, ...]:
        if self.labels:
            return tuple(f"label_{i}" for i in range(self.most + 1))
        return tuple(f"attribute_{i}" for i in range(max(self.width, 0)))

    def encoded(self, values: np.ndarray) -> np.ndarray:
        """[rows, columns] as they were given → [rows, features]."""
        return np.equal(values, np.arange(self.most + 1)).astype(np.float32) if self.labels else values


@dataclass
class _Survey:
    """What is known about all graphs once they are laid down."""

    label: str
    graphs: int = 0
    targets: int = 0
    whole: bool = True  # targets are of a whole-number type
    zero_one: bool = True  # or have no other values than these
    per_node: bool = True  # every graph has as many targets as nodes, in a y of one dimension
    gaps: bool = False
    values: set[float] = field(default_factory=set)  # of a single target, at most one more than MOST_CLASSES
    x: _Features = field(default_factory=lambda: _Features("x"))
    edge_attr: _Features = field(default_factory=lambda: _Features("edge_attr"))

    def lay_down(self, graphs: Iterable[Any], workspace: Path) -> Iterator[Path]:
        """Writes the graphs into files of bounded size."""
        try:
            graphs = iter(graphs)
        except TypeError:
            raise DataError(f"{self.label} is a {type(graphs).__name__}, not an iterable of PyG's Data") from None
        pending: list[dict[str, np.ndarray]] = []
        rows = 0
        for graph in graphs:
            pending.append(self._arrays(graph))
            rows += len(pending[-1]["x"]) + pending[-1]["edges"].shape[1]
            if len(pending) == GRAPHS_A_CHUNK or rows >= ROWS_A_CHUNK:
                yield _save(pending, workspace / f"{self.graphs:012d}.npz")
                pending, rows = [], 0
        if pending:
            yield _save(pending, workspace / f"{self.graphs:012d}.npz")
        if self.graphs and self.per_node and self.targets > 1:
            raise DataError(
                f"{self.label} has one label per node, PermLab learns one per graph; if these are several targets, "
                "give y the shape [1, T]"
            )

    def _arrays(self, graph: Any) -> dict[str, np.ndarray]:
        """One graph, checked: x [n, r], edges [2, E], edge_attr [E, s], y [1, T]."""
        from torch_geometric.data import Data

        name = f"{self.label}: graph {self.graphs}"
        if not isinstance(graph, Data):
            raise DataError(f"{name} is a {type(graph).__name__}, not a torch_geometric.data.Data")
        if graph.edge_index is None or graph.edge_index.dim() != 2 or len(graph.edge_index) != 2:
            raise DataError(f"{name} has no edge_index of shape [2, E]")
        edges = graph.edge_index.detach().cpu().numpy()
        if edges.dtype.kind not in "iu":
            raise DataError(f"{name} has an edge_index of {graph.edge_index.dtype}; nodes are numbered by integers")
        x = _matrix(graph.x, f"{name}: x")
        count = int(graph.num_nodes or 0) if x is None else len(x)
        if edges.size and not 0 <= edges.min() <= edges.max() < count:
            wrong = edges.min() if edges.min() < 0 else edges.max()
            raise DataError(f"{name} has an edge to node {wrong}; its nodes run from 0 to {count - 1}")
        self.x.add(x, name)
        edge_attr = _matrix(graph.edge_attr, f"{name}: edge_attr")
        if edges.shape[1]:
            if edge_attr is not None and len(edge_attr) != edges.shape[1]:
                raise DataError(f"{name} has {edges.shape[1]} edges and {len(edge_attr)} rows of edge_attr")
            self.edge_attr.add(edge_attr, name)
        y = self._labels(graph.y, count, name)
        self.graphs += 1
        rows = {} if edge_attr is None or not edges.shape[1] else {"edge_attr": edge_attr}
        return {"x": np.ones((count, 1), np.float32) if x is None else x, "edges": edges, "y": y} | rows

    def _labels(self, given: Any, nodes: int, name: str) -> np.ndarray:
        """[1, T]"""
        if given is None:
            raise DataError(f"{name} has no y")
        y = _numbers(given, f"{name}: y")
        if y.ndim > 2 or (y.ndim == 2 and len(y) != 1) or not y.size:
            raise DataError(f"{name} has a y of shape {list(y.shape)}; y is a number, [T] or [1, T]")
        if self.graphs and y.size != self.targets:
            raise DataError(f"{name} has {y.size} targets, the graphs before it have {self.targets}")
        self.targets = y.size
        self.per_node = self.per_node and y.ndim == 1 and y.size == nodes
        self.whole = self.whole and y.dtype.kind in "iub"
        y = y.reshape(1, -1).astype(np.float64)
        known = y[~np.isnan(y)]
        self.gaps = self.gaps or len(known) < self.targets
        self.zero_one = self.zero_one and bool(np.isin(known, (0, 1)).all())
        if self.targets == 1 and len(self.values) <= MOST_CLASSES:
            self.values.update(known.tolist())
        return y

    @property
    def task(self) -> Literal["classification", "regression"]:
        classes = self.whole and self.targets == 1 and len(self.values) <= MOST_CLASSES
        return "classification" if self.zero_one or classes else "regression"

    def classes(self, task: str) -> np.ndarray | None:
        """The values of a single target's classes, ascending; None if there is nothing to number."""
        if task == "regression" or self.zero_one:
            return None
        if self.targets > 1:
            raise DataError(f"{self.label} has {self.targets} targets; to be classes, each may only be 0 or 1")
        if len(self.values) > MOST_CLASSES or not all(float(value).is_integer() for value in self.values):
            raise DataError(f"{self.label}: classes are whole numbers, at most {MOST_CLASSES:,} different ones")
        return np.array(sorted(self.values))

    def target_names(self, task: str) -> tuple[str, ...]:
        if self.targets == 1:
            return ("class" if task == "classification" else "y",)
        return tuple(f"target_{i}" for i in range(self.targets))


def _check_facts(facts: Mapping[str, Any], label: str) -> None:
    unknown = [str(key) for key in facts if key not in FACTS]
    if unknown:
        raise DataError(f"{label} says {', '.join(unknown)} of its graphs; it may say {', '.join(FACTS)}")
    if facts.get("task", "regression") not in ("classification", "regression"):
        raise DataError(f"{label}: task={facts['task']!r}; choose from classification, regression")
    targets = facts.get("targets", ())
    if isinstance(targets, str) or not all(isinstance(name, str) and name for name in targets):
        raise DataError(f"{label}: targets={targets!r} is not a list of names")
    if len(set(targets)) < len(targets):
        raise DataError(f"{label}: targets={targets!r} has a name twice")
    if "units" in facts and len(facts["units"]) != len(targets):
        raise DataError(f"{label} gives {len(facts['units'])} units for {len(targets)} named targets")
    if facts.get("default_target", "") not in ("", *targets):
        raise DataError(f"{label}: default_target={facts['default_target']!r} is not one of the targets it names")
    holdout = facts.get("holdout", 0.2)
    if isinstance(holdout, bool) or not isinstance(holdout, int | float) or holdout < 0:
        raise DataError(f"{label}: holdout={holdout!r} is neither a number of graphs nor a fraction")


def _numbers(value: Any, what: str) -> np.ndarray:
    """A tensor, an array or a number as an array of real numbers."""
    import torch

    try:
        tensor = torch.as_tensor(value).detach().cpu()
        array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    except (TypeError, ValueError, RuntimeError):
        raise DataError(f"{what} is a {type(value).__name__} that does not read as numbers") from None
    if array.dtype.kind not in "fiub":
        raise DataError(f"{what} holds {array.dtype}, not real numbers")
    return array


def _matrix(value: Any, what: str) -> np.ndarray | None:
    """[rows] or [rows, columns] → [rows, columns]."""
    if value is None:
        return None
    array = _numbers(value, what)
    if array.ndim not in (1, 2):
        raise DataError(f"{what} has the shape {list(array.shape)}; it needs one row per node or edge")
    array = array[:, None] if array.ndim == 1 else array
    return array.astype(np.float32) if array.dtype.kind == "b" else array


def _save(graphs: list[dict[str, np.ndarray]], path: Path) -> Path:
    """Several graphs as one: `edges` [2, E] become rows of x [n, r]."""
    counts = np.array([len(graph["x"]) for graph in graphs])
    start = pointer(counts)[:-1]
    arrays = {
        "counts": counts,
        "x": np.concatenate([graph["x"] for graph in graphs]),
        "edges": np.concatenate([graph["edges"] + first for graph, first in zip(graphs, start, strict=True)], axis=1),
        "y": np.concatenate([graph["y"] for graph in graphs]),
    }
    rows = [graph["edge_attr"] for graph in graphs if "edge_attr" in graph]
    if rows:
        arrays["edge_attr"] = np.concatenate(rows)
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def _chunks(files: list[Path], survey: _Survey, classes: np.ndarray | None) -> Iterator[GraphChunk]:
    first = 0
    for file in files:
        with np.load(file, allow_pickle=False) as arrays:
            counts, (src, dst), y, x = (arrays[name] for name in ("counts", "edges", "y", "x"))
            rows = arrays["edge_attr"] if "edge_attr" in arrays else np.zeros((0, survey.edge_attr.width))
        file.unlink()
        if classes is not None:
            y = np.where(np.isnan(y), np.nan, np.searchsorted(classes, y))
        edge_attr = survey.edge_attr.encoded(rows) if survey.edge_attr.names else None
        graph_id = np.arange(first, first + len(counts))
        yield make_chunk(survey.x.encoded(x), counts, src, dst, y, graph_id, edge_attr=edge_attr)
        first += len(counts)
