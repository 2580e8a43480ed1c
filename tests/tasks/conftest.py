import pytest

from permlab.datasets.store import GraphStore
from tests.datasets.stores import build_store


@pytest.fixture(autouse=True, scope="module")
def single_threaded(one_thread: None) -> None:
    """All tests of this folder run with one thread."""


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    """A hundred small graphs with two classes."""
    return build_store("synthetic,graphs=100,task=classification", tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    """Graphs of one to six nodes with a regression target."""
    return build_store("synthetic,graphs=40,min_nodes=1,max_nodes=6,features=3", tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    """Graphs of many sizes with two classes."""
    name = "synthetic,graphs=60,min_nodes=3,max_nodes=60,task=classification"
    return build_store(name, tmp_path_factory.mktemp("large"))
