from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from permlab.datasets.cache import build
from permlab.datasets.errors import DataUsageError
from permlab.datasets.manifest import CacheBroken
from permlab.datasets.randomness import node_order
from permlab.datasets.store import GraphStore

NAME = "synthetic,graphs=60,max_nodes=9,min_nodes=1"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERMLAB_CACHE", str(tmp_path_factory.mktemp("store")))
        build(NAME)
        return GraphStore.open(NAME)


def dense(store: GraphStore, graph: int) -> tuple[np.ndarray, np.ndarray]:
    """Â and Z of one graph by the formula, from the raw shard."""
    (shard,) = store.shards
    z = shard.x[slice(*shard.node_ptr[graph : graph + 2])]
    edges = slice(*shard.edge_ptr[graph : graph + 2])
    a = np.eye(len(z))
    a[shard.src[edges], shard.dst[edges]] = 1
    scale = np.diag(a.sum(1) ** -0.5)
    return scale @ a @ scale, z


positions = st.lists(st.integers(0, 59), min_size=1, max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graphs=positions, seed=st.none() | st.integers(0, 2**31))
def test_a_batch_is_its_graphs_one_behind_the_other(store: GraphStore, graphs: list[int], seed: int | None) -> None:
    batch = store.batch(np.array(graphs), seed)
    assert batch.y.tolist() == store.y[graphs].tolist()
    a = batch.adjacency.to_dense().numpy()
    ptr = batch.ptr.tolist()
    assert a.shape == (ptr[-1], ptr[-1])
    for i, graph in enumerate(graphs):
        expected, z = dense(store, graph)
        if seed is not None:
            order = node_order(store.graph_id[[graph]], np.array([0, len(z)]), seed)
            expected, z = expected[np.ix_(order, order)], z[order]
        nodes = slice(ptr[i], ptr[i + 1])
        np.testing.assert_allclose(a[nodes, nodes], expected, atol=1e-6)
        np.testing.assert_allclose(batch.x[nodes].numpy(), expected @ z, atol=1e-5)
        a[nodes, nodes] = 0
    assert not a.any()  # nothing between graphs


def test_types_are_small_and_tensors_are_the_batchs_own(store: GraphStore) -> None:
    batch = store.batch(np.array([1, 2]))
    assert (batch.a_ptr.dtype, batch.a_column.dtype) == (torch.int32, torch.int32)
    assert (batch.x.dtype, batch.a_value.dtype, batch.y.dtype) == (torch.float32,) * 3
    batch.x.zero_()
    assert store.batch(np.array([1, 2])).x.abs().sum() > 0


def test_arrays_are_views_of_the_files(store: GraphStore) -> None:
    for name in ("node_ptr", "a_ptr", "a_column", "a_value", "az", "y", "graph_id", "group"):
        mapped = getattr(store, name).base
        assert isinstance(mapped, np.memmap), name
        assert Path(mapped.filename) == store.folder / f"{name}.npy"
    assert not store.shards[0].x.flags.owndata and not store.shards[0].src.flags.owndata


def test_a_view_that_is_written_to_does_not_reach_the_file(store: GraphStore) -> None:
    before = store.y[0].item()
    other = GraphStore(store.folder, store.manifest)
    other.y[0] = 1e6
    assert GraphStore(store.folder, store.manifest).y[0] == before


def test_split_sizes_come_from_the_data_set(store: GraphStore) -> None:
    parts = store.split(0)
    assert (len(parts.train), len(parts.validation), len(parts.holdout)) == (48, 0, 12)
    parts = store.split(0, holdout=5, validation=0.2)
    assert (len(parts.train), len(parts.validation), len(parts.holdout)) == (44, 11, 5)


def test_positions_out_of_range(store: GraphStore) -> None:
    with pytest.raises(DataUsageError, match="positions run from 0 to 59, got -1 to 3"):
        store.batch(np.array([-1, 3]))


def test_orders_drawn_before_give_the_same_batch(store: GraphStore) -> None:
    graphs, seeds = np.array([5, 0, 9, 5]), np.array([-1, 7, 12])
    row = np.array([1, 0, 2, 2])
    drawn, stored = store.batch(graphs, seeds[row]), store.batch(graphs, row, store.orders(seeds.tolist()))
    assert all(torch.equal(left, right) for left, right in zip(drawn[:6], stored[:6], strict=True))


@pytest.mark.parametrize("array", ["a_ptr", "node_ptr"])
@pytest.mark.parametrize("value", [-1, 2**40])
def test_damaged_bounds_are_found_before_they_are_followed(store: GraphStore, array: str, value: int) -> None:
    broken = GraphStore(store.folder, store.manifest)
    changed = getattr(store, array).copy()
    graph = 1
    changed[store.node_ptr[graph] if array == "a_ptr" else graph] = value
    setattr(broken, array, changed)
    with pytest.raises(CacheBroken, match="az.npy is damaged; rebuild it with: permlab data build"):
        broken.batch(np.array([graph]))


@pytest.mark.parametrize("array", ["a_ptr", "a_column"])
@pytest.mark.parametrize("value", [-1, 2**30])
def test_damage_inside_a_graph_is_found_where_it_is_followed(store: GraphStore, array: str, value: int) -> None:
    broken = GraphStore(store.folder, store.manifest)
    graph = int(np.argmax(np.diff(store.node_ptr)))
    changed = getattr(store, array).copy()
    changed[store.node_ptr[graph] + 1 if array == "a_ptr" else store.a_ptr[store.node_ptr[graph]]] = value
    setattr(broken, array, changed)
    for seed in (None, 7):
        with pytest.raises(CacheBroken, match="is damaged"):
            broken.batch(np.array([graph]), seed)
    with pytest.raises(CacheBroken, match="is damaged"):
        broken.colours(np.array([graph]))


@pytest.mark.parametrize("row", [-1, 2])
def test_orders_that_there_are_not_are_refused(store: GraphStore, row: int) -> None:
    orders = store.orders([3, 4])
    with pytest.raises(DataUsageError, match="do not have these rows"):
        store.batch(np.array([0, 1]), np.array([0, row]), orders)
    with pytest.raises(DataUsageError, match="another data set's"):
        store.batch(np.array([0, 1]), np.array([0, 0]), orders[:, 1:])
