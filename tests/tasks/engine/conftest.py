import importlib.util

import numpy as np
import pytest

from permlab.datasets.cache import build
from permlab.datasets.store import GraphStore

if importlib.util.find_spec("numba") is None:
    collect_ignore_glob = ["test_*.py"]  # without the extra `fast` there is no engine to test


@pytest.fixture(scope="session")
def coloured(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    """Small graphs whose Â·Z takes three values."""
    name = "synthetic,graphs=600,min_nodes=1,max_nodes=5,features=1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERMLAB_CACHE", str(tmp_path_factory.mktemp("coloured")))
        build(name)
        store = GraphStore.open(name)
    store.az = np.sign(np.round(store.az)).astype(np.float32) + 0.0  # no −0
    return store
