"""Stores of synthetic data for tests, each in a cache of its own."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from permlab.datasets.cache import build
from permlab.datasets.catalogue import SOURCES
from permlab.datasets.chunk import GraphChunk, make_chunk
from permlab.datasets.sources.base import Progress, Reading, Source
from permlab.datasets.store import GraphStore
from permlab.datasets.writer import ShardWriter


def build_store(name: str, folder: Path) -> GraphStore:
    """Build the data set with `folder` as the cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERMLAB_CACHE", str(folder))
        build(name)
        return GraphStore.open(name)


def build_sharded_store(name: str, folder: Path) -> GraphStore:
    """The same in several shards, as only large data sets have them otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_shards(patch, graphs_per_chunk=25, shard_bytes=2_000)
        store = build_store(name, folder)
    assert len(store.shards) > 2
    return store


def use_small_shards(patch: pytest.MonkeyPatch, graphs_per_chunk: int, shard_bytes: int) -> None:
    patch.setattr("permlab.datasets.sources.synthetic.GRAPHS_A_CHUNK", graphs_per_chunk)
    patch.setattr("permlab.datasets.cache.ShardWriter", partial(ShardWriter, shard_bytes=shard_bytes))


SCAFFOLDS = ("c1ccccc1", "", "C1CCNCC1", "c1ccccc1", "c1ccccc1", "C1CCNCC1")


@dataclass(frozen=True)
class Rings(Source):
    """Graphs of one node in chunks of six, with the scaffolds above."""

    chunks: int = 2

    def digest(self) -> str:
        return "rings"

    def read(self, workspace: Path, download: Progress) -> Reading:
        return Reading(self._chunks(), ("x",), "classification", ("y",), classes=2)

    def _chunks(self) -> Iterator[GraphChunk]:
        none = np.array([], dtype=np.int64)
        for first in range(0, 6 * self.chunks, 6):
            ids = np.arange(first, first + 6)
            x, y = np.random.default_rng(first).normal(size=(6, 1)), ids % 2
            yield make_chunk(x, np.ones(6, dtype=np.int64), none, none, y, ids, scaffold=SCAFFOLDS)


def use_rings(patch: pytest.MonkeyPatch) -> None:
    """The data set `rings`."""
    patch.setitem(SOURCES, "rings", Rings)
