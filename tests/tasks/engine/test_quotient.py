"""Equal rows taken together give the numbers of the whole batch."""

import numpy as np
import pytest
import torch

from permlab.datasets.batch import GraphBatch
from permlab.datasets.colours import Colours
from permlab.datasets.splits import Split
from permlab.datasets.store import GraphStore
from permlab.tasks.data import GraphData
from permlab.tasks.gcn import GCN
from permlab.tasks.quotient import quotient


def in_double(batch: GraphBatch) -> GraphBatch:
    return batch._replace(x=batch.x.double(), a_value=batch.a_value.double())


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("layers", [3, 4])
@pytest.mark.parametrize("d", [2, 9, 20])
@pytest.mark.parametrize("summed", [False, True])
def test_the_gcn_is_the_same(
    coloured: GraphStore, colours: Colours, seed: int | None, layers: int, d: int, summed: bool
) -> None:
    torch.manual_seed(d)
    batch = in_double(coloured.batch(np.arange(50, 150), seed, colours=colours))
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


def test_the_rows_of_a_batch_are_those_of_the_data_set(coloured: GraphStore, colours: Colours) -> None:
    graphs = np.array([3, 500, 4])
    rows = np.concatenate([coloured.az[slice(*coloured.node_ptr[graph : graph + 2])] for graph in graphs])
    np.testing.assert_array_equal(coloured.batch(graphs, colours=colours).x.numpy(), rows)


def test_what_goes_the_plain_way(coloured: GraphStore, colours: Colours) -> None:
    small = coloured.batch(np.flatnonzero(np.diff(coloured.node_ptr) == 1)[:2], colours=colours)
    assert small.colours is not None and quotient(small) is None
    batch = coloured.batch(np.arange(50), colours=colours)
    assert quotient(batch) is not None
    assert quotient(batch._replace(x=batch.x.requires_grad_())) is None
    batch = coloured.batch(np.arange(50), colours=colours)
    gcn = GCN(1, 9, 2, 3, dropout=0.5)
    assert gcn.train()._quotient(batch) is None and gcn.eval()._quotient(batch) is not None
    assert coloured.batch(np.arange(50)).colours is None


def test_training_batches_have_the_colours_of_the_training_graphs_alone(coloured: GraphStore) -> None:
    parts = np.split(np.random.default_rng(0).permutation(len(coloured)), [500])
    data = GraphData(coloured, Split(parts[0], parts[1][:0], parts[1]), ("train", "holdout"), seed=0, batch_size=100)
    (call, *_) = data.train_dataloader()
    batches = list(data.train_batches(0, call.order, range(data.train_steps)))
    assert all(quotient(batch) is not None for batch in batches)
    held = np.concatenate([np.arange(*coloured.node_ptr[graph : graph + 2]) for graph in parts[1]])
    assert (data._colours.second[held] == -1).all() and (data._colours.first[held] == -1).all()
    assert all(batch.colours is None for loader in data.val_dataloader() for batch in loader)
