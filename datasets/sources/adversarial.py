"""Data sets on which theory says which maps must fail: made from a seed, with a known best possible score.

Graphs come in twins, one of each class, which stay on one side of every split. A map that gives both twins the same
image is right about one of them: its accuracy and its AUC are 0.5, whatever it learns. The best possible score is 1.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.random import Generator, default_rng

from permlab.datasets.chunk import GraphChunk, make_chunk, pointer
from permlab.datasets.errors import DataUsageError
from permlab.datasets.places import safe_folder
from permlab.datasets.sources.base import Progress, Reading, Source
from permlab.datasets.sources.twin_graphs import (
    CSL_SKIPS,
    cai_furer_immerman,
    clique_transfer,
    cycles,
    epsilon_trees,
    ring_transfer,
    skip_links,
)
from permlab.datasets.sources.twin_sets import Graph, colliding, equal_moments, key_directions, parse_key

GRAPHS_A_CHUNK = 512
VERSION = 1
LIMITS = {
    "graphs": (2, 1_000_000), "seed": (0, 2**63 - 1), "k": (1, 8), "features": (1, 100), "gap": (0, 100),
    "height": (3, 6), "eps": (1e-6, 10), "length": (2, 100), "walks": (0, 64), "base": (3, 6),
}  # fmt: skip
TRANSFER = ("query", "source", "value", "noise")

Twins = Callable[[Generator], tuple[Graph, Graph]]


class _Task(NamedTuple):
    """`make` gets the source and gives a function that makes the graphs of all classes, one of each."""

    make: Callable[["Adversarial"], Callable[[Generator], tuple[Graph, ...]]]
    parameters: tuple[str, ...]
    names: Callable[["Adversarial"], tuple[str, ...]]


def _collisions(source: "Adversarial") -> Twins:
    key = parse_key(source.key, source.features)
    return partial(colliding, key=key, directions=key_directions(key, default_rng((source.seed, 0))), gap=source.gap)


def _points(source: "Adversarial") -> tuple[str, ...]:
    rows = len(parse_key(source.key, source.features)) if source.task == "collision" else source.features
    return tuple(f"x{i}" for i in range(rows))


def _walks(source: "Adversarial") -> tuple[str, ...]:
    return tuple(f"return_{step}" for step in range(1, source.walks + 1)) or ("constant_0",)


TASKS = {
    "moments": _Task(lambda s: partial(equal_moments, k=s.k, features=s.features), ("k", "features"), _points),
    "collision": _Task(_collisions, ("key", "features", "gap"), _points),
    "trees": _Task(lambda s: partial(epsilon_trees, height=s.height, eps=s.eps), ("height", "eps"), lambda s: ("x0",)),
    "ring": _Task(lambda s: partial(ring_transfer, length=s.length), ("length",), lambda s: TRANSFER),
    "clique": _Task(lambda s: partial(clique_transfer, length=s.length), ("length",), lambda s: TRANSFER),
    "regular": _Task(lambda s: partial(cycles, walks=s.walks), ("walks",), _walks),
    "csl": _Task(lambda s: lambda random: tuple(skip_links(skip, s.walks) for skip in CSL_SKIPS), ("walks",), _walks),
    "cfi": _Task(lambda s: partial(cai_furer_immerman, base=s.base, walks=s.walks), ("base", "walks"), _walks),
}


@dataclass(frozen=True)
class Adversarial(Source):
    summary: ClassVar[str] = f"twins that some maps cannot tell apart: {', '.join(TASKS)}"
    argument: ClassVar[str] = "task"

    task: str
    graphs: int = 1000
    seed: int = 0
    k: int = 4
    key: str = "ones"
    features: int = 2
    gap: float = 0.0
    height: int = 4
    eps: float = 0.1
    length: int = 7
    walks: int = 0
    base: int = 4

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise DataUsageError(f"there is no adversarial data set {self.task!r}; choose from {', '.join(TASKS)}")
        for name, (least, most) in LIMITS.items():
            if not least <= getattr(self, name) <= most:
                raise DataUsageError(
                    f"adversarial:{self.task}: {name}={getattr(self, name)}; choose {least:,} to {most:,}"
                )
        if self.graphs % self._classes:
            raise DataUsageError(
                f"adversarial:{self.task}: graphs={self.graphs} is not a multiple of {self._classes}: "
                "every class has a graph of each kind"
            )
        if self.task == "collision":
            parse_key(self.key, self.features)

    @classmethod
    def from_text(cls, label: str, argument: str | None, parameters: dict[str, str]) -> Self:
        known = (*TASKS[argument].parameters, "graphs", "seed") if argument in TASKS else ()
        others = [key for key in parameters if key in cls.__dataclass_fields__ and known and key not in known]
        if others:
            raise DataUsageError(f"data set {label!r}: {argument} takes {', '.join(known)}, not {', '.join(others)}")
        return super().from_text(label, argument, parameters)

    @property
    def _classes(self) -> int:
        return len(CSL_SKIPS) if self.task == "csl" else 2

    def digest(self) -> str:
        return hashlib.sha256(f"adversarial {VERSION} {sorted(asdict(self).items())}".encode()).hexdigest()

    def folder(self, text: str) -> str:
        return safe_folder("adversarial", self.task, text)

    def read(self, workspace: Path, download: Progress) -> Reading:
        return Reading(
            chunks=self._chunks(),
            feature_names=TASKS[self.task].names(self),
            task="classification",
            targets=("class",),
            total=self.graphs,
            classes=self._classes,
            best={"ACC": 1.0, "AUC": 1.0},
        )

    def _chunks(self) -> Iterator[GraphChunk]:
        """Twins i are a function of (seed, i): a longer data set begins with the shorter one."""
        make, classes = TASKS[self.task].make(self), self._classes
        for start in range(0, self.graphs, GRAPHS_A_CHUNK // classes * classes):
            stop = min(start + GRAPHS_A_CHUNK // classes * classes, self.graphs)
            graphs: list[Graph] = []
            for twins in range(start // classes, stop // classes):
                random = default_rng((self.seed, 1, twins))
                graphs += [_renumbered(graph, random) for graph in make(random)]
            counts = np.array([len(x) for x, _ in graphs])
            edges = [edge + first for (_, edge), first in zip(graphs, pointer(counts)[:-1], strict=True)]
            src, dst = np.concatenate(edges, axis=1)
            graph_id = np.arange(start, stop)
            # Graphs of one class of csl are isomorphic, so there each graph is a group of its own.
            group = graph_id if self.task == "csl" else graph_id // classes
            x = np.concatenate([x for x, _ in graphs])
            yield make_chunk(x, counts, src, dst, graph_id % classes, graph_id, group)


def _renumbered(graph: Graph, random: Generator) -> Graph:
    """The same graph with its nodes in a random order."""
    x, edges = graph
    place: Any = random.permutation(len(x))
    shuffled = np.empty_like(x)
    shuffled[place] = x
    return shuffled, place[edges]
