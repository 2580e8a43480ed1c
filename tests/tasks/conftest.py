import pytest

from permlab.datasets.cache import build
from permlab.datasets.store import GraphStore


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    """A hundred small graphs with two classes."""
    name = "synthetic,graphs=100,task=classification"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERMLAB_CACHE", str(tmp_path_factory.mktemp("tasks")))
        build(name)
        return GraphStore.open(name)
