import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from permlab.datasets.batch import GraphBatch
from permlab.datasets.errors import DataUsageError
from permlab.datasets.manifest import CacheBroken
from permlab.datasets.randomness import node_order
from permlab.datasets.store import GraphStore
from tests.datasets.stores import SCAFFOLDS, build_sharded_store, use_rings, use_small_shards

NAME = "synthetic,graphs=60,max_nodes=9,min_nodes=1"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    return build_sharded_store(NAME, tmp_path_factory.mktemp("store"))


def raw(store: GraphStore, graph: int) -> tuple[np.ndarray, np.ndarray]:
    """A with loops, dense, and Z of one graph, from its shard."""
    for shard in store.shards:
        if graph < len(shard):
            break
        graph -= len(shard)
    z = shard.x[slice(*shard.node_ptr[graph : graph + 2])]
    edges = slice(*shard.edge_ptr[graph : graph + 2])
    a = np.eye(len(z))
    a[shard.src[edges], shard.dst[edges]] = 1
    return a, z


def dense(batch: GraphBatch) -> np.ndarray:
    """Â, column by column."""
    return (batch.adjacency @ torch.eye(int(batch.ptr[-1]), dtype=torch.float64)).numpy()


positions = st.lists(st.integers(0, 59), min_size=1, max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graphs=positions, seed=st.none() | st.integers(0, 2**31))
def test_a_batch_is_its_graphs_one_after_the_other(store: GraphStore, graphs: list[int], seed: int | None) -> None:
    batch = store.batch(np.array(graphs), seed, step=3)
    assert batch.y.tolist() == store.y[graphs].tolist() and batch.graph_id.tolist() == store.graph_id[graphs].tolist()
    assert len(batch) == len(graphs) and batch.step == 3 and batch.edge_attr is None
    ptr, a = batch.ptr.tolist(), dense(batch)
    assert batch.sizes.tolist() == np.diff(ptr).tolist() and batch.sizes.sum() == len(batch.x)
    edges = np.zeros(a.shape)
    np.add.at(edges, tuple(batch.edge_index.numpy()), 1)
    for i, graph in enumerate(graphs):
        with_loops, z = raw(store, graph)
        if seed is not None:
            order = node_order(store.graph_id[[graph]], np.array([0, len(z)]), seed)
            with_loops, z = with_loops[np.ix_(order, order)], z[order]
        scale = np.diag(with_loops.sum(1) ** -0.5)
        expected, nodes = scale @ with_loops @ scale, slice(ptr[i], ptr[i + 1])
        np.testing.assert_array_equal(batch.x[nodes].numpy(), z)
        np.testing.assert_array_equal(edges[nodes, nodes], with_loops - np.eye(len(z)))
        np.testing.assert_allclose(a[nodes, nodes], expected, atol=1e-7)
        np.testing.assert_allclose(batch.az[nodes].numpy(), expected @ z, atol=1e-5)
        a[nodes, nodes] = edges[nodes, nodes] = 0
    assert not a.any() and not edges.any()  # nothing between graphs


def test_features_come_from_more_than_one_shard(store: GraphStore) -> None:
    last = np.cumsum([len(shard) for shard in store.shards]) - 1
    graphs = np.array([*last[::-1], 0])
    expected = np.concatenate([raw(store, graph)[1] for graph in graphs])
    np.testing.assert_array_equal(store.batch(graphs).x.numpy(), expected)


def test_graphs_keep_their_sums_when_their_nodes_are_permuted(store: GraphStore) -> None:
    """To the last bit: a row of Â keeps the order of its entries."""
    graphs = np.arange(60)
    plain, permuted = store.batch(graphs), store.batch(graphs, 5)
    order = torch.from_numpy(node_order(store.graph_id, plain.ptr.numpy(), 5))
    assert not torch.equal(plain.x, permuted.x)
    assert torch.equal(plain.x[order], permuted.x) and torch.equal(plain.az[order], permuted.az)
    for h in (plain.az, plain.az.double()):
        assert torch.equal((plain.adjacency @ h)[order], permuted.adjacency @ h[order])


def test_one_seed_per_graph_and_a_negative_one_keeps_the_order(store: GraphStore) -> None:
    graphs = np.array([7, 8, 7])
    mixed = store.batch(graphs, np.array([4, -1, 9]))
    for i, seed in enumerate((4, None, 9)):
        alone = store.batch(graphs[i : i + 1], seed)
        nodes = slice(*mixed.ptr[i : i + 2].tolist())
        assert torch.equal(mixed.x[nodes], alone.x) and torch.equal(mixed.az[nodes], alone.az)


def test_orders_drawn_before_give_the_same_batch(store: GraphStore) -> None:
    graphs, seeds = np.array([5, 0, 9, 5]), np.array([-1, 7, 12])
    row = np.array([1, 0, 2, 2])
    drawn, stored = store.batch(graphs, seeds[row]), store.batch(graphs, row, store.orders(seeds.tolist()))
    for name in ("x", "az", "edge_index", "ptr", "y"):
        assert torch.equal(getattr(drawn, name), getattr(stored, name)), name
    for left, right in zip(drawn.adjacency[:3], stored.adjacency[:3], strict=True):
        assert torch.equal(left, right)


def test_dtypes_are_those_of_pyg_and_a_batch_owns_its_tensors(store: GraphStore) -> None:
    batch = store.batch(np.array([1, 2]))
    assert {part.dtype for part in (batch.edge_index, batch.ptr, batch.batch)} == {torch.int64}
    assert {part.dtype for part in (batch.x, batch.az, batch.y, batch.adjacency.value)} == {torch.float32}
    for name in ("x", "az", "y"):
        getattr(batch, name).zero_()
        assert getattr(store.batch(np.array([1, 2])), name).abs().sum() > 0


def test_moved_to_another_device_it_is_whole_there(store: GraphStore) -> None:
    batch = store.batch(np.array([3, 1]), 2, step=4)
    moved = batch.to("meta")
    for tensor in (moved.x, moved.edge_index, moved.ptr, moved.y, moved.az, moved.batch, *moved.adjacency[:3]):
        assert tensor.device.type == "meta"
    assert moved.x.shape == batch.x.shape and moved.edge_index.shape == batch.edge_index.shape
    assert moved.sizes.tolist() == batch.sizes.tolist() and moved.step == 4
    assert store.to("cpu") is store
    there = store.to("meta").batch(np.array([3, 1]))
    assert {part.device.type for part in (there.x, there.az, there.y, there.adjacency.value)} == {"meta"}


def test_no_graphs_make_an_empty_batch(store: GraphStore) -> None:
    batch = store.batch(np.array([], dtype=np.int64))
    assert len(batch) == 0 and batch.x.shape == batch.az.shape == (0, 8) and batch.edge_index.shape == (2, 0)


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


def test_positions_out_of_range_are_refused(store: GraphStore) -> None:
    with pytest.raises(DataUsageError, match="0 to 59.*-1 to 3"):
        store.batch(np.array([-1, 3]))


def damaged(store: GraphStore, array: str, place: int, value: int) -> GraphStore:
    broken = GraphStore(store.folder, store.manifest)
    changed = getattr(store, array).copy()
    changed[place] = value
    setattr(broken, array, changed)
    return broken


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("value", [-1, 2**40])
def test_damaged_bounds_of_graphs_are_found(store: GraphStore, value: int, seed: int | None) -> None:
    with pytest.raises(CacheBroken, match="is damaged.*permlab data build"):
        damaged(store, "node_ptr", 1, value).batch(np.array([1]), seed)


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("value", [-1, 2**30])
@pytest.mark.parametrize("array", ["a_ptr at the start", "a_ptr inside", "a_column"])
def test_damage_of_the_adjacency_is_found_where_it_is_followed(
    store: GraphStore, array: str, value: int, seed: int | None
) -> None:
    graph = int(np.argmax(np.diff(store.node_ptr)))
    first = int(store.node_ptr[graph])
    places = {"a_ptr at the start": first, "a_ptr inside": first + 1, "a_column": int(store.a_ptr[first])}
    for name in ("adjacency", "edge_index"):
        batch = damaged(store, array.split()[0], places[array], value).batch(np.array([graph]), seed)
        with pytest.raises(CacheBroken, match="is damaged.*permlab data build"):
            getattr(batch, name)


def test_features_missing_from_the_shards_are_noticed(store: GraphStore) -> None:
    broken = GraphStore(store.folder, store.manifest)
    broken.shards = store.shards[:-1]
    with pytest.raises(CacheBroken, match="is damaged.*permlab data build"):
        _ = broken.batch(np.array([0, 59])).x


@pytest.mark.parametrize("row", [-1, 2])
def test_orders_that_do_not_exist_are_refused(store: GraphStore, row: int) -> None:
    orders = store.orders([3, 4])
    with pytest.raises(DataUsageError, match=re.escape(str(orders.shape))):
        store.batch(np.array([0, 1]), np.array([0, row]), orders)
    of_another_store = orders[:, 1:]
    with pytest.raises(DataUsageError, match=re.escape(str(of_another_store.shape))):
        store.batch(np.array([0, 1]), np.array([0, 0]), of_another_store)


def test_scaffolds_of_molecules_are_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    use_rings(monkeypatch)
    use_small_shards(monkeypatch, graphs_per_chunk=6, shard_bytes=1)
    store = GraphStore.open("rings", build_missing=True)
    assert len(store.shards) == 2 and store.scaffolds() == [*SCAFFOLDS, *SCAFFOLDS]


def test_graphs_that_are_not_molecules_have_no_scaffolds(store: GraphStore) -> None:
    with pytest.raises(DataUsageError, match="synthetic.* has no scaffolds.*SMILES"):
        store.scaffolds()
