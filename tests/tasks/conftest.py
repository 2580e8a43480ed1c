import pytest

from permlab.datasets.cache import build
from permlab.datasets.store import GraphStore


@pytest.fixture(autouse=True, scope="module")
def everywhere(one_thread: None) -> None:
    """All tests of this folder run with one thread."""


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
def small(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    """Graphs of one to six nodes with a number to estimate."""
    return _built("synthetic,graphs=40,min_nodes=1,max_nodes=6,features=3", tmp_path_factory)


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    """Graphs of many sizes with two classes."""
    return _built("synthetic,graphs=60,min_nodes=3,max_nodes=60,task=classification", tmp_path_factory)
