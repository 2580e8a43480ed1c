import numpy as np
import pytest

from permlab.datasets.chunk import concatenate, from_arrow, make_chunk, to_arrow
from permlab.datasets.errors import DataError


def two_graphs(**changes: np.ndarray):
    """A path 0-1-2 and an edge 3-4, given once, twice, reversed and with a loop."""
    arguments = {
        "x": np.arange(10, dtype=np.float32).reshape(5, 2),
        "counts": np.array([3, 2]),
        "src": np.array([1, 0, 1, 4, 2]),
        "dst": np.array([0, 1, 2, 3, 2]),
        "y": np.array([0.5, 1.5]),
        "graph_id": np.array([10, 11]),
    }
    return make_chunk(**arguments | changes)


def test_edges_become_undirected_simple_and_local() -> None:
    chunk = two_graphs()
    assert chunk.edge_ptr.tolist() == [0, 4, 6]
    assert list(zip(chunk.src.tolist(), chunk.dst.tolist(), strict=True)) == [
        (0, 1),
        (1, 0),
        (1, 2),
        (2, 1),
        (0, 1),
        (1, 0),
    ]


def test_arrow_has_the_documented_types_and_is_read_without_a_copy() -> None:
    chunk = two_graphs()
    batch = to_arrow(chunk)
    types = {field.name: str(field.type) for field in batch.schema}
    assert types["x"].startswith("list<item: fixed_size_list<item: float")
    assert types["edge_src"] == types["edge_dst"] == "list<item: int32>"
    assert (types["y"], types["graph_id"], types["group"]) == ("float", "int64", "int64")
    assert batch.column("edge_dst").to_pylist() == [[1, 0, 2, 1], [1, 0]]
    back = from_arrow(batch)
    for name in vars(chunk):
        np.testing.assert_array_equal(getattr(back, name), getattr(chunk, name))
    assert np.shares_memory(back.x, batch.column("x").values.values.to_numpy())


def test_chunks_concatenate_graph_by_graph() -> None:
    chunk = two_graphs()
    both = concatenate([chunk, chunk])
    assert both.node_ptr.tolist() == [0, 3, 5, 8, 10]
    assert to_arrow(both).column("edge_src").to_pylist() == 2 * to_arrow(chunk).column("edge_src").to_pylist()


def test_graphs_without_edges_or_nodes_are_kept() -> None:
    none = np.array([], dtype=np.int64)
    chunk = make_chunk(np.ones((1, 2)), np.array([1, 0]), none, none, np.zeros(2), np.arange(2))
    assert len(chunk) == 2 and chunk.edge_ptr.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.full((5, 2), np.nan)}, "graph 10 .*feature"),
        ({"y": np.array([0.0, np.inf])}, "graph 11 .*target inf"),
        ({"src": np.array([0]), "dst": np.array([4])}, "graph 10 .*edge"),
        ({"counts": np.array([3, 3])}, "6 nodes"),
        ({"scaffold": ["C1CC1"]}, "2 graphs and 1 scaffolds"),
    ],
)
def test_a_bad_graph_is_named(changes: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(DataError, match=message):
        two_graphs(**changes)
