import numpy as np
import pytest

from permlab.datasets.cache import build
from permlab.datasets.colours import Colours
from permlab.datasets.store import GraphStore


def _built(name: str, factory: pytest.TempPathFactory) -> GraphStore:
    """In a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERMLAB_CACHE", str(factory.mktemp("tasks")))
        build(name)
        return GraphStore.open(name)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    """A hundred small graphs with two classes."""
    return _built("synthetic,graphs=100,task=classification", tmp_path_factory)


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    """Graphs of many sizes with two classes."""
    return _built("synthetic,graphs=60,min_nodes=3,max_nodes=60,task=classification", tmp_path_factory)


@pytest.fixture(scope="session")
def coloured(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    """Small graphs whose Â·Z takes three values."""
    store = _built("synthetic,graphs=600,min_nodes=1,max_nodes=5,features=1", tmp_path_factory)
    store.az = np.sign(np.round(store.az)).astype(np.float32) + 0.0  # no −0
    return store


@pytest.fixture(scope="session")
def colours(coloured: GraphStore) -> Colours:
    found = coloured.colours(np.arange(len(coloured)))
    assert found is not None and len(found.x) == 3
    return found
