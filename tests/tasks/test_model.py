import numpy as np
import pytest
import torch

from permlab.datasets.store import GraphStore
from permlab.readouts.catalogue import build
from permlab.readouts.names import PAPER_METHODS
from permlab.tasks.gcn import GCN
from permlab.tasks.model import GraphModel, Head


def model(method: str, store: GraphStore, d: int = 4) -> GraphModel:
    torch.manual_seed(0)
    readout = build(method, d, store.manifest.max_nodes)
    return GraphModel(GCN(8, 6, d), readout, Head(readout, 9, 3, "relu", 0.0))


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_one_number_a_graph_whatever_the_batch(store: GraphStore, method: str) -> None:
    network = model(method, store).eval()
    together = network(store.batch(np.arange(20)))
    assert together.shape == (20,)
    alone = torch.cat([network(store.batch(np.array([i]))) for i in range(20)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_invariant_methods_do_not_see_the_order_of_nodes(store: GraphStore, method: str) -> None:
    network = model(method, store).eval()
    plain, permuted = network(store.batch(np.arange(60))), network(store.batch(np.arange(60), 3))
    if network.readout.permutation_invariant:
        torch.testing.assert_close(plain, permuted, atol=1e-5, rtol=1e-4)
    else:
        assert (plain - permuted).abs().max() > 1e-3


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_every_weight_gets_a_gradient(store: GraphStore, method: str) -> None:
    network = model(method, store)
    network(store.batch(np.arange(100))).sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_the_ragged_head_is_the_dense_head_on_the_padded_vector(store: GraphStore) -> None:
    network = model("ordering", store)
    batch = store.batch(np.arange(30))
    first = network.head.first
    padded = network.readout(network.gcn(batch), ptr=batch.ptr)
    z = padded @ first.weight.T + first.bias
    for layer in network.head.inner:
        z = layer(z.relu())
    torch.testing.assert_close(network(batch), network.head.last(z.relu()).squeeze(-1), atol=1e-5, rtol=1e-5)
