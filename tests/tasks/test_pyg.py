import numpy as np
import torch
from torch_geometric.data import Batch

from permlab.datasets.store import GraphStore
from permlab.tasks.pyg import from_pyg, to_pyg


def test_there_and_back_again(store: GraphStore) -> None:
    ids = np.array([3, 50, 7])
    graphs = to_pyg(store, ids)
    assert [graph.num_nodes for graph in graphs] == np.diff(store.node_ptr)[ids].tolist()
    for form in (graphs, Batch.from_data_list(graphs)):
        back, batch = from_pyg(form), store.batch(ids)
        for name in ("ptr", "a_ptr", "a_column", "y"):
            assert torch.equal(getattr(back, name), getattr(batch, name)), name
        torch.testing.assert_close(back.x, batch.x)
        torch.testing.assert_close(back.a_value, batch.a_value)
    assert len(from_pyg(graphs[0]).y) == 1
