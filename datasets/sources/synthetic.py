"""Random connected graphs made from a seed, for tests, documentation and scale: any number, any size.

A graph is a random recursive tree plus about n/2 further edges; features are standard normal. With
s_i = tanh(x_i · w), the score n^-1/2 Σ_i s_i + e^-1 Σ_(i,j) s_i s_j is the target of the regression, and its
sign the class: both depend on features and edges, but not on the order of the nodes.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from permlab.datasets.chunk import GraphChunk, make_chunk, pointer
from permlab.datasets.errors import DataUsageError
from permlab.datasets.sources.base import Progress, Reading, Source

GRAPHS_A_CHUNK = 8192
NODES_A_CHUNK = 500_000  # at most per chunk, so that memory does not grow with the number of graphs
LIMITS = {"graphs": 100_000_000, "max_nodes": 100_000, "features": 1000, "seed": 2**63 - 1}
MOST_NUMBERS = 16_000_000_000  # graphs × max_nodes × (features + 8): 4 bytes each on disk, 64 GB
VERSION = 1


@dataclass(frozen=True)
class Synthetic(Source):
    summary: ClassVar[str] = "made from a seed; graphs=, max_nodes=, task=, …"

    graphs: int = 1000
    min_nodes: int = 4
    max_nodes: int = 30
    features: int = 8
    task: str = "regression"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.task not in ("regression", "classification"):
            raise DataUsageError(f"synthetic: task={self.task!r}; choose from regression, classification")
        if not 1 <= self.min_nodes <= self.max_nodes:
            raise DataUsageError(
                f"synthetic: min_nodes={self.min_nodes}, max_nodes={self.max_nodes}; need 1 <= min_nodes <= max_nodes"
            )
        if self.graphs < 1 or self.features < 1 or self.seed < 0:
            raise DataUsageError(
                f"synthetic: graphs={self.graphs}, features={self.features}, seed={self.seed}; "
                "graphs and features start at 1, seed at 0"
            )
        for name, most in LIMITS.items():
            if getattr(self, name) > most:
                raise DataUsageError(f"synthetic: {name}={getattr(self, name)}; the limit is {most:,}")
        if (numbers := self.graphs * self.max_nodes * (self.features + 8)) > MOST_NUMBERS:
            raise DataUsageError(
                f"synthetic: graphs={self.graphs}, max_nodes={self.max_nodes}, features={self.features}; graphs × "
                f"max_nodes × (features + 8) is {numbers:,}, the limit is {MOST_NUMBERS:,}"
            )

    def digest(self) -> str:
        return hashlib.sha256(f"synthetic {VERSION} {sorted(asdict(self).items())}".encode()).hexdigest()

    def read(self, workspace: Path, download: Progress) -> Reading:
        classification = self.task == "classification"
        return Reading(
            chunks=self._chunks(),
            feature_names=tuple(f"x{i}" for i in range(self.features)),
            task="classification" if classification else "regression",
            targets=("sign of score" if classification else "score",),
            total=self.graphs,
            classes=2 if classification else 0,
        )

    def _chunks(self) -> Iterator[GraphChunk]:
        weights = np.random.default_rng((self.seed, 0)).standard_normal(self.features) / np.sqrt(self.features)
        size = max(1, min(GRAPHS_A_CHUNK, NODES_A_CHUNK // self.max_nodes))
        for start in range(0, self.graphs, size):
            random = np.random.default_rng((self.seed, 1, start))
            graph_id = np.arange(start, min(start + size, self.graphs))
            counts = random.integers(self.min_nodes, self.max_nodes + 1, len(graph_id))
            ptr = pointer(counts)
            x = random.standard_normal((ptr[-1], self.features), dtype=np.float32)
            src, dst = _edges(counts, ptr, random)
            owner = np.repeat(np.arange(len(counts)), counts)
            signal = np.tanh(x @ weights)
            edge_sum = np.bincount(owner[src], signal[src] * signal[dst], minlength=len(counts))
            edge_count = np.bincount(owner[src], minlength=len(counts))
            node_sum = np.bincount(owner, signal, minlength=len(counts))
            score = node_sum / np.sqrt(counts) + edge_sum / np.maximum(edge_count, 1)
            y = (score > 0) if self.task == "classification" else score
            yield make_chunk(x, counts, src, dst, y, graph_id)


def _edges(counts: np.ndarray, ptr: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One random recursive tree per graph (node i > 0 is joined to an earlier one) and n // 2 further random pairs."""
    local = np.arange(ptr[-1]) - np.repeat(ptr[:-1], counts)
    child = np.flatnonzero(local > 0)
    parent = child - local[child] + (random.random(len(child)) * local[child]).astype(np.int64)
    extra = np.repeat(np.arange(len(counts)), counts // 2)
    ends = ptr[extra] + (random.random((2, len(extra))) * counts[extra]).astype(np.int64)
    return np.concatenate([parent, ends[0]]), np.concatenate([child, ends[1]])
