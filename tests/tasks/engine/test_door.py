"""What the engine accepts and what it refuses: anything it does not know is trained as it is defined."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from permlab.datasets.manifest import CacheBroken
from permlab.datasets.store import GraphStore
from permlab.readouts.base import Readout
from permlab.readouts.catalogue import build
from permlab.readouts.names import PAPER_METHODS
from permlab.tasks.engine import door
from permlab.tasks.engine.door import FastTask, Refusal, open_engine
from permlab.tasks.model import Head, Standardise
from permlab.tasks.norms import norm_of
from permlab.tasks.objectives import BinaryClassification, MultiClass, Objective, Regression, choose_objective
from permlab.tasks.scaling import ScaleFeatures
from permlab.tasks.task import GraphTask, Recipe
from tests.readouts.cases import CauchyKernels, MeanInstead
from tests.tasks.engine.making import make_data, make_task


class OwnLoss(BinaryClassification):
    def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
        return functional.l1_loss(predictions, y)


class OwnTask(GraphTask):
    pass


def hooked(where: Callable[[Any], nn.Module]) -> Callable[[GraphTask], None]:
    return lambda task: where(task.model).register_forward_hook(lambda *_: None) and None


def replaced(task: GraphTask) -> None:
    task.model.readout.pool = lambda x, ptr: x[:0]


def frozen(task: GraphTask) -> None:
    task.model.head.last.bias.requires_grad_(False)


def own_activation(task: GraphTask) -> None:
    task.model.head.activation = nn.LeakyReLU()


def parameter_hook(task: GraphTask) -> None:
    task.model.head.last.weight.register_hook(lambda grad: 0 * grad)


def normed(task: GraphTask) -> None:
    task.model.backbone.norms[1] = norm_of("batch", 18)


def unbiased(task: GraphTask) -> None:
    task.model.backbone.biases = nn.ParameterList()


def scaled(task: GraphTask) -> None:
    task.model.features = ScaleFeatures(torch.zeros(8), torch.ones(8))


CHANGES: dict[str, tuple[Callable[[GraphTask], Any], str]] = {
    "hook on the readout": (hooked(lambda model: model.readout), "hook"),
    "hook on a layer": (hooked(lambda model: model.head.inner[0]), "hook"),
    "hook on an activation": (hooked(lambda model: model.backbone.activation), "hook"),
    "hook on a parameter": (parameter_hook, "hook"),
    "a method replaced": (replaced, "pool was replaced"),
    "a frozen parameter": (frozen, "head.last.bias"),
    "another activation": (own_activation, "LeakyReLU"),
    "double precision": (lambda task: task.double(), "float64"),
    "a norm": (normed, "normalisation BatchNorm"),
    "no biases": (unbiased, "have a bias"),
    "scaled features": (scaled, "scaling of the features ScaleFeatures"),
    "another optimiser": (lambda task: setattr(task, "recipe", Recipe("momentum")), "optimiser momentum"),
}


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_it_takes_the_papers_methods(store: GraphStore, method: str) -> None:
    assert isinstance(open_engine(make_task(store, method), make_data(store)), FastTask)


@pytest.mark.parametrize("change", CHANGES)
def test_it_refuses_what_it_would_not_honour(store: GraphStore, change: str) -> None:
    task, (apply, word) = make_task(store, "sum"), CHANGES[change]
    apply(task)
    answer = open_engine(task, make_data(store))
    assert isinstance(answer, Refusal) and word in answer.reason


@pytest.mark.parametrize("readout", [MeanInstead(5), CauchyKernels(5)], ids=lambda readout: type(readout).__name__)
def test_it_refuses_subclasses_of_the_readouts_it_knows(store: GraphStore, readout: Readout) -> None:
    answer = open_engine(make_task(store, readout), make_data(store))
    assert isinstance(answer, Refusal) and type(readout).__name__ in answer.reason


def test_it_refuses_a_users_own_loss(store: GraphStore) -> None:
    answer = open_engine(make_task(store, objective=OwnLoss()), make_data(store))
    assert isinstance(answer, Refusal) and "OwnLoss" in answer.reason


@pytest.mark.parametrize(
    ("objective", "word"),
    [
        (Regression(loss="huber"), "the loss huber"),
        (Regression(loss=nn.MSELoss()), "the loss MSELoss"),
        (BinaryClassification(lambda predictions, y: predictions.sum()), "the loss <lambda>"),
        (Regression(std=2.0), "standardised"),
        (MultiClass(2), "MultiClass"),
    ],
    ids=["huber", "a module", "a function", "standardised", "several classes"],
)
def test_it_knows_no_other_loss(store: GraphStore, objective: Objective, word: str) -> None:
    answer = open_engine(make_task(store, objective=objective), make_data(store))
    assert isinstance(answer, Refusal) and word in answer.reason


def test_it_knows_neither_several_outputs_nor_a_scale(store: GraphStore) -> None:
    task = make_task(store, objective=Regression(("a", "b")))
    task.model.head = Head(task.model.readout, 9, 3, outputs=2)
    answer = open_engine(task, make_data(store))
    assert isinstance(answer, Refusal) and "2 numbers per graph" in answer.reason
    task = make_task(store)
    task.model.scale = Standardise(0.0, 1.0)
    answer = open_engine(task, make_data(store))
    assert isinstance(answer, Refusal) and "the scale Standardise" in answer.reason


def test_it_leaves_missing_labels_to_the_definition(store: GraphStore) -> None:
    gaps = GraphStore(store.folder, store.manifest)
    gaps.y = store.y.copy()
    gaps.y[3] = float("nan")
    answer = open_engine(make_task(store), make_data(gaps))
    assert isinstance(answer, Refusal) and "without a label" in answer.reason


@pytest.mark.parametrize("loss", ["auto", "bce"])
def test_metrics_do_not_matter_to_it(store: GraphStore, loss: str) -> None:
    metrics = {"MatthewsCorrCoef": None}
    objective = choose_objective("classification", ("y",), 2, loss=loss, metrics=metrics)
    assert isinstance(open_engine(make_task(store, objective=objective), make_data(store)), FastTask)


def test_it_refuses_a_users_own_task(store: GraphStore) -> None:
    known = make_task(store)
    answer = open_engine(OwnTask(known.model, known.objective), make_data(store))
    assert isinstance(answer, Refusal) and "OwnTask" in answer.reason


def test_it_refuses_a_scheduler(store: GraphStore) -> None:
    answer = open_engine(make_task(store, recipe=Recipe(scheduler="cosine")), make_data(store))
    assert isinstance(answer, Refusal) and "cosine" in answer.reason


def test_it_refuses_a_users_own_loader(store: GraphStore) -> None:
    data = make_data(store)
    data.train_loader = lambda data: []
    assert isinstance(open_engine(make_task(store), data), Refusal)
    data = make_data(store)
    data.train_batch = lambda *given: None
    answer = open_engine(make_task(store), data)
    assert isinstance(answer, Refusal) and "train_batch was replaced" in answer.reason


def test_it_refuses_graphs_larger_than_the_readout_takes(store: GraphStore) -> None:
    readout = build("ordering", 5, store.manifest.max_nodes - 1)
    answer = open_engine(make_task(store, readout), make_data(store))
    assert isinstance(answer, Refusal) and "nodes" in answer.reason


def test_damaged_data_raises_the_error_of_the_store(store: GraphStore) -> None:
    broken = GraphStore(store.folder, store.manifest)
    broken.a_column = store.a_column.copy()
    broken.a_column[:] = -1
    with pytest.raises(CacheBroken, match="permlab data build"):
        open_engine(make_task(store), make_data(broken))


def test_hooks_on_all_modules_are_honoured(store: GraphStore) -> None:
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        assert isinstance(open_engine(make_task(store), make_data(store)), Refusal)
    finally:
        handle.remove()


def test_it_refuses_when_a_gradient_differs_from_autograd(store: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = door.by_autograd

    def slightly_off(*args: Any) -> tuple[float, dict[str, Tensor]]:
        loss, gradients = exact(*args)
        return loss, gradients | {"backbone.weights.1": 1.2 * gradients["backbone.weights.1"]}

    monkeypatch.setattr(door, "by_autograd", slightly_off)
    task = make_task(store)
    before = {name: value.clone() for name, value in task.state_dict().items()}
    answer = open_engine(task, make_data(store))
    assert isinstance(answer, Refusal) and "backbone.weights.1" in answer.reason
    assert all(torch.equal(before[name], value) for name, value in task.state_dict().items())


def test_opening_it_leaves_the_random_state_alone(store: GraphStore) -> None:
    task, before = make_task(store, dropout=0.2), torch.get_rng_state()
    open_engine(task, make_data(store))
    assert torch.equal(before, torch.get_rng_state())
