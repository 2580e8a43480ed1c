"""A step of the engine against autograd on the definition, in double precision."""

from typing import Any

import numpy as np
import pytest
import torch

from permlab.datasets.cache import build
from permlab.datasets.store import GraphStore
from permlab.readouts.names import PAPER_METHODS
from permlab.tasks.data import GraphData
from permlab.tasks.engine.door import PARTS, by_autograd
from permlab.tasks.engine.stepper import Stepper
from permlab.tasks.task import GraphTask
from tests.tasks.engine.making import make_data, make_task


def assert_same_step(
    task: GraphTask, data: GraphData, graphs: Any = None, copies: Any = None, without: tuple[str, ...] = ()
) -> float:
    """Loss and every gradient agree between the engine and autograd; returns the loss."""
    if graphs is None:
        _, graphs, copies = next(data.train_plan())
    graphs, copies = np.asarray(graphs), np.zeros_like(graphs) if copies is None else copies
    stepper = Stepper(task, data, without)
    for _ in range(2):  # the second time in memory that was used before
        task.seed_noise(0)
        loss = stepper.loss_and_gradients(graphs, copies)
    task.seed_noise(0)
    exact_loss, exact = by_autograd(task, data, graphs, copies)
    assert loss == pytest.approx(exact_loss, rel=1e-4)
    for name, parameter in task.model.named_parameters():
        ours, size = torch.from_numpy(stepper.flat.of(parameter)[1].copy()), float(exact[name].abs().max())
        torch.testing.assert_close(ours.double(), exact[name], rtol=1e-3, atol=1e-4 * size + 1e-6, msg=name)
    return loss


@pytest.mark.parametrize("objective", ["classification", "regression"])
@pytest.mark.parametrize("method", PAPER_METHODS)
def test_loss_and_gradients_are_the_definitions(store: GraphStore, method: str, objective: str) -> None:
    assert_same_step(make_task(store, method, objective=objective), make_data(store))


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_graphs_of_many_sizes(large: GraphStore, method: str) -> None:
    """The ragged layer has several blocks."""
    assert_same_step(make_task(large, method), make_data(large, 40))


@pytest.mark.parametrize("options", [{"activation": "tanh"}, {"activation": "elu"}, {"last_activation": "relu"}])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("method", ["sum", "kernels", "ordering", "set2set"])
def test_activations_and_dropout(store: GraphStore, method: str, options: dict[str, str], dropout: float) -> None:
    assert_same_step(make_task(store, method, dropout=dropout, **options), make_data(store))


@pytest.mark.parametrize("layers", [1, 2, 4, 5])
@pytest.mark.parametrize("d", [1, 60])
@pytest.mark.parametrize("method", ["sum", "ordering", "set2set", "kernels"])
def test_other_depths_and_widths(store: GraphStore, method: str, layers: int, d: int) -> None:
    assert_same_step(make_task(store, method, layers=layers, d=d), make_data(store))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("kernels", {"normalise": False, "sigma": 2.0}),
        ("kernels", {"mean": True, "kernels": 7}),
        ("ordering", {"key": "spark:9"}),
        ("set2set", {"steps": 1}),
        ("set2set", {"steps": 5}),
    ],
)
def test_options_of_readouts(store: GraphStore, method: str, options: dict[str, Any]) -> None:
    assert_same_step(make_task(store, method, **options), make_data(store))


@pytest.mark.parametrize("fresh", [False, True])
def test_permuted_copies(store: GraphStore, fresh: bool) -> None:
    data = make_data(store, permutations=3, fresh_permutations=fresh)
    assert_same_step(make_task(store, "augment"), data)


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_the_order_of_nodes_matters_only_where_the_readout_says_so(store: GraphStore, method: str) -> None:
    task, data = make_task(store, method), make_data(store, permutations=1)
    stepper, graphs = Stepper(task, data), np.arange(50)
    plain, permuted = (stepper.loss_and_gradients(graphs, np.full(50, copy)) for copy in (0, 1))
    same = plain == pytest.approx(permuted, rel=1e-4)
    assert same == task.model.readout.permutation_invariant


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_the_loss_of_a_batch_is_the_mean_over_its_graphs(store: GraphStore, method: str) -> None:
    task, data = make_task(store, method), make_data(store)
    stepper, graphs = Stepper(task, data), np.arange(12)
    alone = [stepper.loss_and_gradients(graphs[i : i + 1], np.zeros(1, dtype=np.int64)) for i in graphs]
    together = stepper.loss_and_gradients(graphs, np.zeros_like(graphs))
    assert together == pytest.approx(np.mean(alone), rel=1e-4)


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_graphs_of_one_node_and_of_none(method: str) -> None:
    """A graph of one node; then its node is given to the graph before it, so that it is empty."""
    name = "synthetic,graphs=30,min_nodes=1,max_nodes=4,task=classification"
    build(name)
    store = GraphStore.open(name)
    sizes = np.diff(store.node_ptr)
    graph = 1 + int(np.flatnonzero((sizes[1:-1] == 1) & (sizes[:-2] < 4))[0])
    assert_same_step(make_task(store, method), make_data(store), np.array([graph]))
    node = int(store.node_ptr[graph])
    store.node_ptr = store.node_ptr.copy()
    store.node_ptr[graph] = node + 1
    store.a_column = store.a_column.copy()
    store.a_column[store.a_ptr[node]] = node - store.node_ptr[graph - 1]
    assert np.diff(store.node_ptr)[graph] == 0
    assert_same_step(make_task(store, method), make_data(store), np.array([graph, graph - 1, graph + 1]))


@pytest.mark.parametrize("part", [part for part in PARTS if part not in ("adam", "calls")])
@pytest.mark.parametrize("method", ["sum", "ordering", "sort", "set2set"])
def test_every_part_can_be_left_out(large: GraphStore, method: str, part: str) -> None:
    assert_same_step(make_task(large, method), make_data(large, 40), without=(part,))
