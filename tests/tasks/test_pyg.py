from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import sort_edge_index

from permlab.datasets.randomness import node_order
from permlab.datasets.store import GraphStore
from permlab.tasks.pyg import from_pyg, to_pyg
from tests.datasets.stores import build_sharded_store

FIELDS = ("x", "edge_index", "ptr", "batch", "y")


@pytest.fixture(scope="module")
def in_shards(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    return build_sharded_store("synthetic,graphs=60,min_nodes=1,max_nodes=9", tmp_path_factory.mktemp("shards"))


def test_a_stored_batch_is_what_pyg_makes_of_the_same_graphs(in_shards: GraphStore) -> None:
    positions = np.array([3, 59, 7, 24, 25, 0, 3])
    theirs, ours = Batch.from_data_list(to_pyg(in_shards, positions)), in_shards.batch(positions)
    for name in FIELDS:
        assert torch.equal(getattr(ours, name), theirs[name]), name
        assert getattr(ours, name).dtype == theirs[name].dtype, name
    assert len(ours) == theirs.num_graphs


def test_a_permuted_batch_is_the_batch_with_its_nodes_renumbered(in_shards: GraphStore) -> None:
    positions = np.array([3, 59, 7, 24, 25, 0])
    theirs, ours = Batch.from_data_list(to_pyg(in_shards, positions)), in_shards.batch(positions, 11)
    order = torch.from_numpy(node_order(in_shards.graph_id[positions], theirs.ptr.numpy(), 11))
    assert not torch.equal(ours.x, theirs.x) and torch.equal(ours.x, theirs.x[order])
    for name in ("ptr", "batch", "y"):
        assert torch.equal(getattr(ours, name), theirs[name]), name
    renumbered = order.argsort()[theirs.edge_index]
    assert torch.equal(sort_edge_index(ours.edge_index), sort_edge_index(renumbered))


@pytest.mark.parametrize("form", ["list", "batch"])
def test_to_pyg_and_back_gives_the_same_batch(store: GraphStore, form: str) -> None:
    positions = np.array([3, 50, 7])
    graphs = to_pyg(store, positions)
    back, batch = from_pyg(graphs if form == "list" else Batch.from_data_list(graphs)), store.batch(positions)
    for name in FIELDS:
        assert torch.equal(getattr(back, name), getattr(batch, name)), name
    for ours, theirs in zip(back.adjacency[:3], batch.adjacency[:3], strict=True):
        assert torch.equal(ours, theirs)
    torch.testing.assert_close(back.az, batch.az)


def test_one_graph_alone_is_a_batch_of_one(store: GraphStore) -> None:
    (graph,) = to_pyg(store, np.array([5]))
    batch = from_pyg(graph)
    assert len(batch) == 1 and batch.y.tolist() == [store.y[5]] and torch.equal(batch.x, graph.x)


def test_stored_graphs_bring_their_edge_features_and_chosen_targets(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("smiles,a,b\nCCO,1,2\nC#N,3,4\nO,5,6\n")
    positions, name = np.array([2, 0, 1]), f"table:{tmp_path}/mine.csv,target=a+b"
    for target, shape in ((None, (3, 2)), ("b", (3,))):
        store = GraphStore.open(name, target, build_missing=True)
        theirs, ours = Batch.from_data_list(to_pyg(store, positions)), store.batch(positions)
        for field in (*FIELDS, "edge_attr"):
            assert torch.equal(getattr(ours, field), theirs[field]), field
        assert ours.y.shape == shape
    assert to_pyg(store, positions, edge_features=False)[0].edge_attr is None


def test_edge_features_and_several_targets_are_kept() -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    graph = Data(x=torch.ones(2, 3), edge_index=edges, edge_attr=torch.arange(4.0).view(2, 2), y=torch.ones(1, 5))
    batch = from_pyg([graph, graph])
    assert batch.edge_attr.tolist() == [[0, 1], [2, 3], [0, 1], [2, 3]] and batch.y.shape == (2, 5)
    assert from_pyg(Data(x=torch.ones(2, 3), edge_index=edges, y=torch.ones(1))).edge_attr is None
