"""Features of edges: through symmetrisation, the cache and permuted batches, against loops over single edges."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from permlab.datasets.cache import build
from permlab.datasets.catalogue import FACTORIES, register_factory
from permlab.datasets.chunk import concatenate, from_arrow, make_chunk, to_arrow
from permlab.datasets.errors import DataError
from permlab.datasets.manifest import CacheBroken
from permlab.datasets.randomness import node_order
from permlab.datasets.store import GraphStore

GRAPHS = 40


def random_graphs() -> Iterator[Data]:
    """Directed edges, some repeated, some loops; every edge has two features of its own."""
    random = np.random.default_rng(0)
    for i in range(GRAPHS):
        n, e = int(random.integers(1, 8)), int(random.integers(0, 15))
        edge_index = torch.from_numpy(random.integers(0, n, (2, e)))
        edge_attr = torch.from_numpy(random.standard_normal((e, 2)).astype(np.float32))
        yield Data(x=torch.ones(n, 1), edge_index=edge_index, edge_attr=edge_attr, y=torch.tensor(float(i) + 0.5))


def expected_features(graph: Data) -> dict[tuple[int, int], list[float]]:
    """For both directions of every edge: the first one given in it, else the first one given in the other."""
    given: dict[tuple[int, int], list[float]] = {}
    for (u, v), row in zip(graph.edge_index.T.tolist(), graph.edge_attr.tolist(), strict=True):
        if u != v:
            given.setdefault((u, v), row)
    return {(v, u): row for (u, v), row in given.items()} | given


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphStore]:
    """In several shards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERMLAB_CACHE", str(tmp_path_factory.mktemp("edges")))
        patch.setattr("permlab.datasets.sources.objects.GRAPHS_A_CHUNK", 15)
        patch.setattr("permlab.datasets.writer.ShardWriter.__init__.__defaults__", (300,))
        register_factory("edges.py:random_graphs", random_graphs, "1")
        build("edges.py:random_graphs")
        yield GraphStore.open("edges.py:random_graphs")
    del FACTORIES["edges.py:random_graphs"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    graphs=st.lists(st.integers(0, GRAPHS - 1), max_size=8),
    seed=st.none() | st.integers(0, 2**31),
)
def test_a_batch_has_the_features_of_its_edges(store: GraphStore, graphs: list[int], seed: int | None) -> None:
    raw = list(random_graphs())
    batch = store.batch(np.array(graphs, dtype=np.int64), seed)
    assert batch.edge_attr is not None and batch.edge_attr.shape == (batch.edge_index.shape[1], 2)
    rows = dict(zip(map(tuple, batch.edge_index.T.tolist()), batch.edge_attr.tolist(), strict=True))
    expected = {}
    for start, graph in zip(batch.ptr.tolist(), graphs, strict=False):
        n = raw[graph].num_nodes
        order = np.arange(n) if seed is None else node_order(store.graph_id[[graph]], np.array([0, n]), seed)
        place = np.argsort(order)
        for (u, v), row in expected_features(raw[graph]).items():
            expected[(start + int(place[u]), start + int(place[v]))] = row
    assert rows == expected and len(rows) == batch.edge_index.shape[1]


edges = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12)


@given(edges)
def test_both_directions_get_the_first_edge_given(pairs: list[tuple[int, int]]) -> None:
    index = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    rows = np.arange(len(pairs), dtype=np.float32)[:, None]
    arguments = (np.ones((5, 1)), np.array([5]), *index.T, np.zeros(1), np.array([3]))
    chunk, without = make_chunk(*arguments, edge_attr=rows), make_chunk(*arguments)
    expected = expected_features(Data(edge_index=torch.from_numpy(index.T), edge_attr=torch.from_numpy(rows)))
    directed = zip(chunk.src.tolist(), chunk.dst.tolist(), chunk.edge_attr.tolist(), strict=True)
    assert {(u, v): row for u, v, row in directed} == expected
    assert without.edge_attr is None and without.src.tolist() == chunk.src.tolist()


def test_arrow_holds_them_and_gives_views_back() -> None:
    ends, rows = np.array([[0, 1, 3], [1, 2, 4]]), np.arange(6.0).reshape(3, 2)
    chunk = make_chunk(np.ones((5, 1)), np.array([3, 2]), *ends, np.zeros(2), np.arange(2), edge_attr=rows)
    batch = to_arrow(concatenate([chunk, chunk]))
    assert batch.schema.field("edge_attr").type.value_type.list_size == 2
    assert batch.column("edge_attr").to_pylist()[1] == [[4, 5], [4, 5]] == batch.column("edge_attr").to_pylist()[3]
    back = from_arrow(batch)
    np.testing.assert_array_equal(back.edge_attr, np.concatenate([chunk.edge_attr] * 2))
    assert not back.edge_attr.flags.owndata


def test_nothing_is_read_unless_it_is_asked_for(store: GraphStore) -> None:
    other = GraphStore(store.folder, store.manifest)
    batch = other.batch(np.arange(5), 3)
    _ = batch.az, batch.edge_index, batch.adjacency
    assert "edge_attr" not in vars(other)
    assert batch.edge_attr is batch.edge_attr and "edge_attr" in vars(other)


def test_moved_to_another_device_they_are_there(store: GraphStore) -> None:
    batch = store.batch(np.arange(9), 3)
    assert batch.to("meta").edge_attr.shape == batch.edge_attr.shape
    assert store.to("meta").batch(np.arange(9)).edge_attr.device.type == "meta"


def test_tensors_are_the_batchs_own(store: GraphStore) -> None:
    store.batch(np.arange(9)).edge_attr.zero_()
    assert store.batch(np.arange(9)).edge_attr.abs().sum() > 0


@pytest.mark.parametrize("rows", [0, 3])
def test_damage_is_found(store: GraphStore, rows: int) -> None:
    broken = GraphStore(store.folder, store.manifest)
    broken.edge_attr = store.edge_attr[:rows]
    with pytest.raises(CacheBroken, match="edge_attr.npy is damaged; rebuild it with"):
        _ = broken.batch(np.arange(GRAPHS)).edge_attr


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([[1.0], [np.nan], [1.0]], "graph 10 has an edge feature that is not a finite number"),
        ([[1.0], [1.0], [1e300]], "graph 11 has an edge feature that is not a finite number"),
        ([[1.0]], "3 edges and 1 rows of edge features"),
    ],
)
def test_bad_features_are_named(rows: list[list[float]], says: str) -> None:
    ends = np.array([[0, 1, 3], [1, 2, 4]])
    with pytest.raises(DataError, match=says):
        make_chunk(np.ones((5, 1)), np.array([3, 2]), *ends, np.zeros(2), np.array([10, 11]), edge_attr=np.array(rows))
