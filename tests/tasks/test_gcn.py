import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv

from permlab.datasets.store import GraphStore
from permlab.tasks.activations import ACTIVATIONS
from permlab.tasks.gcn import GCN
from permlab.tasks.pyg import from_pyg, to_pyg


def stacked(gcn: GCN, last: str, activation: str) -> list[nn.Module]:
    """PyG's layers with the same weights, and the activations between them."""
    parts: list[nn.Module] = []
    for weight, bias in zip(gcn.weights, gcn.biases, strict=True):
        conv = GCNConv(weight.size(0), weight.size(1))
        conv.lin.weight.data, conv.bias.data = weight.detach().T.clone(), bias.detach().clone()
        parts += [conv, ACTIVATIONS[activation]()]
    return [*parts[:-1], ACTIVATIONS[last]()]


def applied(parts: list[nn.Module], x: Tensor, edge_index: Tensor) -> Tensor:
    for part in parts:
        x = part(x, edge_index) if isinstance(part, GCNConv) else part(x)
    return x


def directed(count: int) -> list[Data]:
    """Random graphs without repeated edges, most of which go one way only."""
    graphs, generator = [], torch.Generator().manual_seed(0)
    for size in range(1, count + 1):
        edges = (torch.rand(size, size, generator=generator) < 0.3).nonzero().T
        graphs.append(Data(x=torch.randn(size, 8, generator=generator), edge_index=edges, y=torch.zeros(1)))
    return graphs


def random_gcn(hidden: int, out: int, layers: int, activation: str, last: str) -> GCN:
    torch.manual_seed(layers)
    gcn = GCN(8, hidden, out, layers, activation, last)
    for bias in gcn.biases:
        nn.init.normal_(bias)
    return gcn


@pytest.mark.parametrize("kind", ["stored", "undirected", "directed"])
@pytest.mark.parametrize("hidden, out", [(5, 7), (7, 5)])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("activation, last", [("relu", "none"), ("tanh", "relu"), ("elu", "tanh")])
def test_values_and_gradients_agree_with_stacked_gcnconv_layers(
    store: GraphStore, kind: str, hidden: int, out: int, layers: int, activation: str, last: str
) -> None:
    graphs = directed(9) if kind == "directed" else to_pyg(store, np.arange(9))
    theirs, ours = Batch.from_data_list(graphs), from_pyg(graphs) if kind != "stored" else store.batch(np.arange(9))
    assert theirs.is_undirected() == (kind != "directed")
    gcn = random_gcn(hidden, out, layers, activation, last)
    parts = stacked(gcn, last, activation)
    embedded, expected = gcn(ours), applied(parts, theirs.x, theirs.edge_index)
    torch.testing.assert_close(embedded, expected, atol=1e-5, rtol=1e-5)
    direction = torch.randn(embedded.shape, generator=torch.Generator().manual_seed(0))
    gradients = torch.autograd.grad((embedded * direction).sum(), [*gcn.weights, *gcn.biases])
    convs = [part for part in parts if isinstance(part, GCNConv)]
    weights = [*(conv.lin.weight for conv in convs), *(conv.bias for conv in convs)]
    expected_gradients = torch.autograd.grad((expected * direction).sum(), weights)
    for mine, exact in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(mine, exact.T if exact.dim() == 2 else exact, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("kind", ["undirected", "directed"])
def test_gradients_reach_the_features(store: GraphStore, kind: str) -> None:
    graphs = directed(9) if kind == "directed" else to_pyg(store, np.arange(9))
    gcn = random_gcn(5, 3, 2, "tanh", "none")
    theirs, batch = Batch.from_data_list(graphs), from_pyg(graphs)
    batch.x.requires_grad_()
    x = theirs.x.clone().requires_grad_()
    direction = torch.randn(len(x), 3, generator=torch.Generator().manual_seed(0))
    outs = (gcn(batch), applied(stacked(gcn, "none", "tanh"), x, theirs.edge_index))
    ours, exact = (
        torch.autograd.grad((out * direction).sum(), rows)[0] for out, rows in zip(outs, (batch.x, x), strict=True)
    )
    torch.testing.assert_close(ours, exact, atol=1e-4, rtol=1e-4)


def test_gradients_are_finite_differences(store: GraphStore) -> None:
    batch, gcn = store.batch(np.arange(2)), random_gcn(3, 2, 3, "tanh", "none").double()
    names, weights = zip(*gcn.named_parameters(), strict=True)

    def out(*weights: Tensor) -> Tensor:
        return torch.func.functional_call(gcn, dict(zip(names, weights, strict=True)), (batch,))

    assert torch.autograd.gradcheck(out, weights, fast_mode=True)


def test_dropout_acts_on_the_input_of_every_layer_but_the_first(store: GraphStore) -> None:
    batch, single_layer = store.batch(np.arange(4)), GCN(8, 5, 3, layers=1, dropout=0.9)
    assert torch.equal(single_layer(batch), single_layer(batch))
    gcn = GCN(8, 5, 3, layers=2, dropout=0.9)
    assert not torch.equal(gcn(batch), gcn(batch))
    gcn.eval()
    assert torch.equal(gcn(batch), gcn(batch))
