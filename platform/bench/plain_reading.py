"""The same as `reading.py`, with PyG's InMemoryDataset and DataLoader. Runs in a worker: see `worker.py`."""

import time

from torch_geometric.data import InMemoryDataset
from torch_geometric.loader import DataLoader

from permlab.datasets.store import GraphStore
from permlab.tasks.pyg import to_pyg

_open: list["PlainDataset"] = []  # the data set that the worker holds open


class PlainDataset(InMemoryDataset):
    """Graphs collated into one file, as PyG's own data sets keep them."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.load(path)


def start(name: str = "", path: str = "") -> None:
    """By now everything is imported; with a name, write that data set's training part of seed 0 to `path`."""
    if name:
        store = GraphStore.open(name)
        PlainDataset.save(to_pyg(store, store.split(0).train, edge_features=False), path)


def open_set(name: str) -> float:
    begin = time.perf_counter()
    _open[:] = [PlainDataset(name)]
    return time.perf_counter() - begin


def read() -> None:
    """Read every byte."""
    for name in ("x", "edge_index", "y"):
        _open[0]._data[name].sum()


def epoch(batch_size: int) -> float:
    """Seconds per batch over an epoch, shuffled."""
    loader = DataLoader(_open[0], batch_size=batch_size, shuffle=True)
    begin = time.perf_counter()
    count = sum(1 for _ in loader)
    return (time.perf_counter() - begin) / count
