"""What the engine takes, and what it says no to: whatever it does not know is trained as it is defined."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from permlab.datasets.manifest import CacheBroken
from permlab.datasets.store import GraphStore
from permlab.readouts.catalogue import build
from permlab.readouts.kernels import GaussianKernels
from permlab.readouts.names import PAPER_METHODS
from permlab.readouts.pooling import Sum
from permlab.tasks.engine import door
from permlab.tasks.engine.door import FastTask, Refusal, open_engine
from permlab.tasks.objectives import BinaryClassification
from permlab.tasks.task import GraphTask, Recipe
from tests.tasks.engine.making import make_data, make_task


class DoubleSum(Sum):
    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        return 2 * super().pool(x, ptr)


class OwnKernels(GaussianKernels):
    def features(self, x: Tensor) -> Tensor:
        return super().features(x).square()


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


CHANGES: dict[str, tuple[Callable[[GraphTask], Any], str]] = {
    "hook on the readout": (hooked(lambda model: model.readout), "hook"),
    "hook on a layer": (hooked(lambda model: model.head.inner[0]), "hook"),
    "hook on an activation": (hooked(lambda model: model.backbone.activation), "hook"),
    "hook on a parameter": (parameter_hook, "hook"),
    "a method replaced": (replaced, "pool was replaced"),
    "a frozen parameter": (frozen, "head.last.bias"),
    "another activation": (own_activation, "LeakyReLU"),
    "double precision": (lambda task: task.double(), "float64"),
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


@pytest.mark.parametrize("readout", [DoubleSum(5), OwnKernels(5)], ids=lambda each: type(each).__name__)
def test_it_knows_no_subclass(store: GraphStore, readout: Sum) -> None:
    answer = open_engine(make_task(store, readout), make_data(store))
    assert isinstance(answer, Refusal) and type(readout).__name__ in answer.reason


def test_it_knows_no_loss_of_ones_own(store: GraphStore) -> None:
    answer = open_engine(make_task(store, objective=OwnLoss()), make_data(store))
    assert isinstance(answer, Refusal) and "OwnLoss" in answer.reason


def test_it_knows_no_task_of_ones_own(store: GraphStore) -> None:
    made = make_task(store)
    answer = open_engine(OwnTask(made.model, made.objective), make_data(store))
    assert isinstance(answer, Refusal) and "OwnTask" in answer.reason


def test_it_refuses_a_scheduler(store: GraphStore) -> None:
    answer = open_engine(make_task(store, recipe=Recipe(scheduler="cosine")), make_data(store))
    assert isinstance(answer, Refusal) and "cosine" in answer.reason


def test_it_refuses_a_loader_of_ones_own(store: GraphStore) -> None:
    data = make_data(store)
    data.train_loader = lambda data: []
    assert isinstance(open_engine(make_task(store), data), Refusal)
    data = make_data(store)
    data.train_batch = lambda *given: None
    answer = open_engine(make_task(store), data)
    assert isinstance(answer, Refusal) and "train_batch was replaced" in answer.reason


def test_graphs_beyond_the_readouts_largest_are_left_to_the_definition(store: GraphStore) -> None:
    readout = build("ordering", 5, store.manifest.max_nodes - 1)
    answer = open_engine(make_task(store, readout), make_data(store))
    assert isinstance(answer, Refusal) and "nodes" in answer.reason


def test_missing_labels_are_left_to_the_definition(store: GraphStore) -> None:
    gaps = GraphStore(store.folder, dataclasses.replace(store.manifest, gaps=True))
    answer = open_engine(make_task(store), make_data(gaps))
    assert isinstance(answer, Refusal) and "labels are missing" in answer.reason


def test_damaged_data_is_told_as_by_the_store(store: GraphStore) -> None:
    broken = GraphStore(store.folder, store.manifest)
    broken.a_column = store.a_column.copy()
    broken.a_column[:] = -1
    with pytest.raises(CacheBroken, match="rebuild it with"):
        open_engine(make_task(store), make_data(broken))


def test_hooks_on_all_modules_are_honoured(store: GraphStore) -> None:
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        assert isinstance(open_engine(make_task(store), make_data(store)), Refusal)
    finally:
        handle.remove()


def test_a_gradient_that_is_wrong_is_noticed(store: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = door.by_autograd

    def other(*given: Any) -> tuple[float, dict[str, Tensor]]:
        loss, gradients = exact(*given)
        return loss, gradients | {"backbone.weights.1": 1.2 * gradients["backbone.weights.1"]}

    monkeypatch.setattr(door, "by_autograd", other)
    task = make_task(store)
    before = {name: value.clone() for name, value in task.state_dict().items()}
    answer = open_engine(task, make_data(store))
    assert isinstance(answer, Refusal) and "backbone.weights.1" in answer.reason
    assert all(torch.equal(before[name], value) for name, value in task.state_dict().items())


def test_looking_changes_no_random_state(store: GraphStore) -> None:
    task, before = make_task(store, dropout=0.2), torch.get_rng_state()
    open_engine(task, make_data(store))
    assert torch.equal(before, torch.get_rng_state())
