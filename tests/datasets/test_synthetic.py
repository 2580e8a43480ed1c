import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from permlab.datasets.cache import build
from permlab.datasets.errors import DataUsageError
from permlab.datasets.sources.synthetic import GRAPHS_A_CHUNK, Synthetic


def chunks(**parameters):
    return list(Synthetic(**parameters).read(None, None).chunks)


def test_graphs_are_connected_and_within_their_sizes() -> None:
    (chunk,) = chunks(graphs=200, min_nodes=1, max_nodes=9, features=3)
    counts = np.diff(chunk.node_ptr)
    assert (counts.min(), counts.max(), chunk.x.shape[1]) == (1, 9, 3)
    owner = np.repeat(np.arange(200), np.diff(chunk.edge_ptr))
    src, dst = chunk.src + chunk.node_ptr[owner], chunk.dst + chunk.node_ptr[owner]
    graph = coo_array((np.ones(len(src)), (src, dst)), shape=(len(chunk.x), len(chunk.x)))
    assert connected_components(graph)[0] == 200


def test_the_data_set_depends_on_the_seed_alone() -> None:
    assert build("synthetic,graphs=60").digest == build("synthetic,graphs=60", force=True).digest
    assert build("synthetic,graphs=60").digest != build("synthetic,graphs=60,seed=1").digest


def test_classes_are_the_sign_of_the_regression_target() -> None:
    (regression,) = chunks(graphs=300)
    (classification,) = chunks(graphs=300, task="classification")
    np.testing.assert_array_equal(classification.y, regression.y > 0)
    assert 0.3 < classification.y.mean() < 0.7


def test_a_longer_data_set_begins_with_the_shorter_one() -> None:
    short, long = chunks(graphs=GRAPHS_A_CHUNK), chunks(graphs=GRAPHS_A_CHUNK + 5)
    np.testing.assert_array_equal(short[0].x, long[0].x)
    assert len(long[1]) == 5


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"task": "ranking"}, "ranking.*choose from regression, classification"),
        ({"min_nodes": 5, "max_nodes": 4}, "1 <= min_nodes <= max_nodes"),
        ({"graphs": 0}, "graphs=0"),
        ({"graphs": 99_999_999, "max_nodes": 9999}, "the limit is 16,000,000,000"),
        ({"graphs": 1_000_000, "max_nodes": 1000, "features": 1000}, "max_nodes=1000, features=1000; .* the limit is"),
    ],
)
def test_wrong_parameters_are_refused(parameters: dict, message: str) -> None:
    with pytest.raises(DataUsageError, match=message):
        Synthetic(**parameters)
