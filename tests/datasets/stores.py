"""Stores of synthetic data for tests, each in a cache of its own."""

from functools import partial
from pathlib import Path

import pytest

from permlab.datasets.cache import build
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
