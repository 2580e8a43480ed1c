"""Equal rows taken together give the numbers of the whole batch."""

import numpy as np
import pytest
import torch

from permlab.datasets.batch import GraphBatch
from permlab.datasets.cache import build
from permlab.datasets.store import GraphStore
from permlab.tasks.gcn import GCN
from permlab.tasks.quotient import quotient

NAME = "synthetic,graphs=600,min_nodes=1,max_nodes=5,features=1"


@pytest.fixture(scope="module")
def coloured(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    """Small graphs whose Â·Z takes three values."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERMLAB_CACHE", str(tmp_path_factory.mktemp("coloured")))
        build(NAME)
        store = GraphStore.open(NAME)
    store.az = np.sign(np.round(store.az)).astype(np.float32) + 0.0  # no −0
    assert len(store.colours.x) == 3
    return store


def in_double(batch: GraphBatch) -> GraphBatch:
    return batch._replace(x=batch.x.double(), a_value=batch.a_value.double())


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("layers", [3, 4])
@pytest.mark.parametrize("d", [2, 9, 20])
@pytest.mark.parametrize("summed", [False, True])
def test_the_gcn_is_the_same(coloured: GraphStore, seed: int | None, layers: int, d: int, summed: bool) -> None:
    torch.manual_seed(d)
    batch = in_double(coloured.batch(np.arange(50, 150), seed))
    found = quotient(batch)
    assert found is not None and found.nodes.ptr.numel() - 1 < len(batch.x) / 2
    gcn = GCN(1, 9, d, layers).double()
    for bias in gcn.biases:
        torch.nn.init.normal_(bias)
    outs = [gcn.summed(b) if summed else gcn(b) for b in (batch, batch._replace(colours=None))]
    torch.testing.assert_close(*outs)
    direction = torch.randn_like(outs[0])
    gradients = [torch.autograd.grad((out * direction).sum(), list(gcn.parameters())) for out in outs]
    torch.testing.assert_close(*gradients)
    with torch.no_grad():
        torch.testing.assert_close(gcn.summed(batch) if summed else gcn(batch), outs[1])


def test_the_rows_of_a_batch_are_those_of_the_data_set(coloured: GraphStore) -> None:
    graphs = np.array([3, 500, 4])
    rows = np.concatenate([coloured.az[slice(*coloured.node_ptr[graph : graph + 2])] for graph in graphs])
    np.testing.assert_array_equal(coloured.batch(graphs).x.numpy(), rows)


def test_a_small_batch_and_dropout_go_the_plain_way(coloured: GraphStore) -> None:
    small = coloured.batch(np.flatnonzero(np.diff(coloured.node_ptr) == 1)[:2])
    assert small.colours is not None and quotient(small) is None
    batch = coloured.batch(np.arange(50))
    gcn = GCN(1, 9, 2, 3, dropout=0.5)
    assert gcn.train()._quotient(batch) is None and gcn.eval()._quotient(batch) is not None
