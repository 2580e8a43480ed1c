import numpy as np
import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.nn import GCNConv

from permlab.datasets.batch import GraphBatch
from permlab.datasets.store import GraphStore
from permlab.readouts.segments import segment_sum
from permlab.tasks.gcn import GCN
from permlab.tasks.pyg import to_pyg


def double(batch: GraphBatch) -> GraphBatch:
    return batch._replace(x=batch.x.double(), a_value=batch.a_value.double(), y=batch.y.double())


@pytest.mark.parametrize("hidden, out", [(5, 7), (7, 5)])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("last", ["none", "relu"])
def test_equals_pygs_gcnconv_with_the_same_weights(
    store: GraphStore, hidden: int, out: int, layers: int, last: str
) -> None:
    ids = np.arange(12)
    gcn = GCN(8, hidden, out, layers, last_activation=last)
    for bias in gcn.biases:
        torch.nn.init.normal_(bias)
    graphs = Batch.from_data_list(to_pyg(store, ids))
    h = graphs.x
    for i, (weight, bias) in enumerate(zip(gcn.weights, gcn.biases, strict=True)):
        conv = GCNConv(weight.size(0), weight.size(1))
        conv.lin.weight.data, conv.bias.data = weight.detach().T.clone(), bias.detach().clone()
        h = conv(h, graphs.edge_index)
        if i < layers - 1 or last == "relu":
            h = h.relu()
    torch.testing.assert_close(gcn(store.batch(ids)), h, atol=1e-5, rtol=1e-5)


def test_gradients_are_those_of_dense_algebra(store: GraphStore) -> None:
    batch = double(store.batch(np.arange(3)))
    gcn = GCN(8, 4, 3, 3, activation="tanh").double()
    gcn(batch).pow(2).sum().backward()
    ours = [parameter.grad.clone() for parameter in gcn.parameters()]
    gcn.zero_grad()
    a = batch.adjacency.to_dense()
    h = batch.x @ gcn.weights[0] + gcn.biases[0]
    for weight, bias in zip(gcn.weights[1:], gcn.biases[1:], strict=True):
        h = a @ torch.tanh(h) @ weight + bias
    h.pow(2).sum().backward()
    for mine, parameter in zip(ours, gcn.parameters(), strict=True):
        torch.testing.assert_close(mine, parameter.grad)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_summed_is_the_sum_of_the_rows(store: GraphStore, layers: int) -> None:
    torch.manual_seed(layers)
    batch = store.batch(np.arange(30))
    batch = batch._replace(x=batch.x.double(), a_value=batch.a_value.double())
    gcn = GCN(8, 6, 4, layers).double()
    for bias in gcn.biases:
        torch.nn.init.normal_(bias)
    found, expected = gcn.summed(batch), segment_sum(gcn(batch), batch.ptr)
    torch.testing.assert_close(found, expected)
    direction = torch.randn_like(found)
    ours = torch.autograd.grad((found * direction).sum(), list(gcn.parameters()))
    theirs = torch.autograd.grad((expected * direction).sum(), list(gcn.parameters()))
    torch.testing.assert_close(ours, theirs)
