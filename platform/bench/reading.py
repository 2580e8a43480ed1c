"""Opens a data set, reads it, builds batches. Runs in a worker: see `worker.py`."""

import time

import numpy as np

from permlab.datasets.store import GraphStore

_open: list[GraphStore] = []  # the data set that the worker holds open


def start(name: str = "", path: str = "") -> None:
    """Nothing to do: everything is imported by now, and the data set is built."""


def open_set(name: str) -> float:
    begin = time.perf_counter()
    store = GraphStore.open(name)
    store.y, store.az  # noqa: B018
    seconds = time.perf_counter() - begin
    _open[:] = [store]
    return seconds


def read() -> None:
    """Read every byte that training touches."""
    (store,) = _open
    for name in ("node_ptr", "a_ptr", "a_column", "a_value", "az", "y", "graph_id", "group"):
        getattr(store, name).sum()


def epoch(batch_size: int) -> float:
    """Seconds per batch over an epoch of the training part, shuffled."""
    (store,) = _open
    train = store.split(0).train
    begin = time.perf_counter()
    order = np.random.default_rng(0).permutation(train)
    for first in range(0, len(order), batch_size):
        batch = store.batch(order[first : first + batch_size])
        batch.az, batch.adjacency  # noqa: B018  the model needs both, and they are computed on access
    return (time.perf_counter() - begin) / -(-len(order) // batch_size)
