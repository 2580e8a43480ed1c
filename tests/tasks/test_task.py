"""GraphTask is an ordinary LightningModule: a plain Trainer trains and evaluates it."""

import copy
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.nn import functional

from permlab.datasets.store import GraphStore
from permlab.readouts.catalogue import CATALOGUE, build
from permlab.tasks.data import GraphData, TrainLoader
from permlab.tasks.gcn import GCN
from permlab.tasks.model import GraphModel, Head, Standardise, standardise_on
from permlab.tasks.objectives import (
    BinaryClassification,
    MultiClass,
    MultiLabel,
    Objective,
    Regression,
    choose_objective,
)
from permlab.tasks.task import LOSS, OPTIMIZERS, GraphTask, Recipe
from tests.readouts.cases import CASES, Case

SPLITS = ("train", "holdout", "holdout_perm")
QUIET: dict[str, Any] = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "num_sanity_val_steps": 0,
}


def model_of(store: GraphStore, readout: nn.Module, d: int, dropout: float = 0.0) -> GraphModel:
    torch.manual_seed(0)
    features = len(store.manifest.feature_names)
    return GraphModel(GCN(features, 6, d, dropout=dropout), readout, Head(readout, 9, 2, dropout=dropout))


def make(
    store: GraphStore,
    method: str = "sum",
    dropout: float = 0.0,
    objective: Objective | None = None,
    data: dict[str, Any] | None = None,
    **recipe: Any,
) -> tuple[GraphTask, GraphData]:
    model = model_of(store, build(method, 3, store.manifest.max_nodes), 3, dropout)
    task = GraphTask(model, objective or BinaryClassification(), SPLITS, Recipe(**recipe))
    return task, GraphData(store, store.split(0), SPLITS, seed=0, **{"batch_size": 16} | (data or {}))


class Losses(pl.Callback):
    """Every step's loss, by epoch and step."""

    def __init__(self) -> None:
        self.seen: dict[tuple[int, int], float] = {}
        self.running: list[float] = []

    def on_train_batch_end(
        self, trainer: pl.Trainer, task: pl.LightningModule, outputs: Any, batch: Any, index: int
    ) -> None:
        self.seen[trainer.current_epoch, batch.step] = outputs["loss"].item()

    def on_train_epoch_end(self, trainer: pl.Trainer, task: pl.LightningModule) -> None:
        self.running.append(task.running_loss)


def fit(task: GraphTask, data: GraphData, epochs: int = 1, **options: Any) -> tuple[pl.Trainer, Losses]:
    losses = Losses()
    trainer = pl.Trainer(max_epochs=epochs, callbacks=[losses], **QUIET | options)
    trainer.fit(task, datamodule=data)
    return trainer, losses


def evaluated(task: GraphTask, data: GraphData) -> dict[str, dict[str, float]]:
    pl.Trainer(**QUIET).validate(task, datamodule=data, verbose=False)
    return task.measured


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_plain_trainer_takes_the_steps_of_a_plain_loop(store: GraphStore, optimizer: str) -> None:
    task, data = make(store, "ordering", optimizer=optimizer, learning_rate=1e-2, weight_decay=0.01)
    model = copy.deepcopy(task.model)
    trainer, losses = fit(task, data, epochs=2, limit_val_batches=0)
    assert trainer.global_step == 10 and task.automatic_optimization
    by_hand, expected = OPTIMIZERS[optimizer](model.parameters(), lr=1e-2, weight_decay=0.01), {}
    for epoch in range(2):
        data.last_epoch = epoch
        for batch in TrainLoader(data):
            by_hand.zero_grad()
            loss = functional.binary_cross_entropy_with_logits(model(batch), batch.y)
            loss.backward()
            by_hand.step()
            expected[epoch, batch.step] = loss.item()
    assert losses.seen == pytest.approx(expected, rel=1e-4)
    for trained, exact in zip(task.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(trained, exact, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("method", [name for name in CATALOGUE if name not in ("zeta0", "zeta1", "power_sums")])
def test_every_readout_learns(small: GraphStore, method: str) -> None:
    task, data = make(small, method, objective=Regression(), learning_rate=1e-2, data={"batch_size": 8})
    before = evaluated(task, data)["train"]["loss"]
    fit(task, data, epochs=10, limit_val_batches=0)
    assert evaluated(task, data)["train"]["loss"] < 0.9 * before


def test_the_running_loss_is_the_mean_over_the_graphs_of_the_epoch(store: GraphStore) -> None:
    task, data = make(store, data={"batch_size": 30})  # 30, 30 and 20 graphs
    trainer, losses = fit(task, data, epochs=2)
    assert float(trainer.callback_metrics[LOSS]) == pytest.approx(losses.running[-1])
    for epoch in range(2):
        mean = sum(losses.seen[epoch, step] * size for step, size in enumerate((30, 30, 20))) / 80
        assert losses.running[epoch] == pytest.approx(mean, rel=1e-6)


def test_a_resumed_sum_of_losses_goes_into_the_mean(store: GraphStore) -> None:
    task, _ = make(store)
    task.resume_loss(6.0, 2)
    task.add_loss(torch.tensor(1.0), 4)
    assert task.loss_so_far() == (10.0, 6) and task.running_loss == pytest.approx(10 / 6)


def test_metrics_are_those_of_the_objective_on_whole_splits(store: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    task, data = make(store, "kernels")
    monkeypatch.setattr("permlab.tasks.data.EVALUATION_BATCH", 7)
    trainer, _ = fit(task, data)
    for split, graphs in (("train", data.split.train), ("holdout", data.split.holdout)):
        exact = copy.deepcopy(task.model).double().eval()(store.batch(graphs)).float()
        torch.testing.assert_close(task.outputs[split], exact, rtol=1e-6, atol=1e-6)
        assert task.measured[split] == task.objective.measure(task.outputs[split], torch.from_numpy(store.y[graphs]))
        for metric, value in task.measured[split].items():
            assert float(trainer.callback_metrics[f"{split}/{metric}"]) == pytest.approx(value, rel=1e-6)


def test_evaluation_leaves_the_model_as_it_was(store: GraphStore) -> None:
    task, data = make(store, "ordering", dropout=0.5)
    before = {name: tensor.clone() for name, tensor in task.state_dict().items()}
    first = copy.deepcopy(evaluated(task, data))
    assert evaluated(task, data) == first  # without dropout
    for name, tensor in task.state_dict().items():
        assert tensor.dtype == before[name].dtype and torch.equal(tensor, before[name]), name


@pytest.mark.parametrize("case", [case for case in CASES if case.d == 2], ids=str)
def test_metrics_of_a_permuted_holdout_are_exactly_those_of_the_holdout(small: GraphStore, case: Case) -> None:
    model = model_of(small, case.make(2, 6), 2)
    task, data = GraphTask(model, Regression(), SPLITS), GraphData(small, small.split(0, holdout=30), SPLITS, seed=0)
    measured = evaluated(task, data)
    assert (measured["holdout"] == measured["holdout_perm"]) == case.invariant
    assert torch.equal(task.outputs["holdout"], task.outputs["holdout_perm"]) == case.invariant


@pytest.mark.parametrize("last", ["none", "relu"])
def test_so_are_those_of_a_trained_classifier(store: GraphStore, last: str) -> None:
    """With ReLU on the last layer many embeddings tie."""
    readout = build("sort", 3, store.manifest.max_nodes)
    torch.manual_seed(0)
    model = GraphModel(GCN(8, 6, 3, last_activation=last), readout, Head(readout, 9, 2))
    task, data = GraphTask(model, BinaryClassification(), SPLITS), GraphData(store, store.split(0), SPLITS, seed=0)
    fit(task, data, epochs=3)
    assert task.measured["holdout"] == task.measured["holdout_perm"]


class TestDropout:
    """Masks depend on seed, epoch and step alone. With a learning rate of 0 nothing else changes between steps."""

    def losses(
        self, store: GraphStore, epochs: int = 2, resume_at: tuple[int, int] = (0, 0), **options: Any
    ) -> dict[tuple[int, int], float]:
        recipe = {"optimizer": "sgd", "learning_rate": 0.0, "noise_seed": 3} | options
        task, data = make(store, "ordering", dropout=0.5, data={"repeat_first_epoch": True}, **recipe)
        data.resume_at = resume_at
        return fit(task, data, epochs, limit_val_batches=0)[1].seen

    def test_two_runs_draw_the_same_masks(self, store: GraphStore) -> None:
        first = self.losses(store)
        torch.manual_seed(99)
        assert len(first) == 10 and self.losses(store) == first

    def test_a_run_that_begins_in_the_middle_of_an_epoch_draws_the_masks_of_the_rest(self, store: GraphStore) -> None:
        whole, rest = self.losses(store), self.losses(store, resume_at=(0, 3))
        assert set(whole) - set(rest) == {(0, 0), (0, 1), (0, 2)}
        assert rest == {place: loss for place, loss in whole.items() if place in rest}

    def test_every_step_has_masks_of_its_own(self, store: GraphStore) -> None:
        task, batch = make(store, "ordering", dropout=0.5)[0], store.batch(np.arange(16))
        outs = []
        for step in (0, 1, 0):
            task.seed_noise(step)
            outs.append(task(batch))
        assert torch.equal(outs[0], outs[2]) and not torch.equal(outs[0], outs[1])

    def test_every_epoch_and_every_seed_has_masks_of_its_own(self, store: GraphStore) -> None:
        whole, other = self.losses(store), self.losses(store, noise_seed=4)
        for step in range(5):  # the same batch each time
            assert len({whole[0, step], whole[1, step], other[0, step], other[1, step]}) == 4


def test_a_split_without_graphs_is_not_measured(store: GraphStore) -> None:
    task, data = make(store)
    task.splits = data.splits = ("train", "validation", "holdout")
    assert len(data.split.validation) == 0
    fit(task, data)
    assert set(task.measured) == set(task.outputs) == {"train", "holdout"}


def rates(store: GraphStore, run_epochs: int, **recipe: Any) -> list[float]:
    """The learning rate of every epoch."""
    task, data = make(store, learning_rate=0.1, optimizer="sgd", **recipe)
    seen: list[float] = []

    class Rates(pl.Callback):
        def on_train_epoch_start(self, trainer: pl.Trainer, task: pl.LightningModule) -> None:
            seen.append(trainer.optimizers[0].param_groups[0]["lr"])

    options = QUIET | {"limit_train_batches": 1, "limit_val_batches": 0}
    pl.Trainer(max_epochs=run_epochs, callbacks=[Rates()], **options).fit(task, datamodule=data)
    return seen


def test_a_cosine_falls_to_zero_over_the_epochs(store: GraphStore) -> None:
    expected = [0.1 * (1 + np.cos(np.pi * epoch / 4)) / 2 for epoch in range(4)]
    assert rates(store, 4, scheduler="cosine", epochs=4) == pytest.approx(expected)
    assert rates(store, 3) == [0.1] * 3


def test_a_plateau_divides_by_ten_when_the_loss_has_not_fallen(store: GraphStore) -> None:
    class Stuck(BinaryClassification):
        def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
            return 0 * predictions.sum() + 1

    by_epoch = rates(store, 14, scheduler="plateau", objective=Stuck())
    assert by_epoch[0] == 0.1 and by_epoch[-1] == pytest.approx(0.01) and sorted(by_epoch, reverse=True) == by_epoch


def test_a_users_own_loss_is_the_one_that_is_trained(store: GraphStore) -> None:
    class Absolute(BinaryClassification):
        def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
            return functional.l1_loss(predictions, y.to(predictions.dtype))

    task, data = make(store, objective=Absolute())
    batch = next(iter(TrainLoader(data)))
    expected = (task.model(batch) - batch.y).abs().mean().item()
    _, losses = fit(task, data, limit_val_batches=0)
    assert losses.seen[0, 0] == pytest.approx(expected, rel=1e-6)


def with_targets(store: GraphStore, y: np.ndarray) -> GraphStore:
    """The same graphs with other targets, [G] or [G, T]."""
    other = GraphStore(store.folder, store.manifest)
    other.y = y.astype(np.float32)
    return other


def task_for(store: GraphStore, objective: Objective, scale: Standardise | None = None) -> tuple[GraphTask, GraphData]:
    torch.manual_seed(0)
    readout = build("sum", 3, store.manifest.max_nodes)
    head = Head(readout, 9, 2, outputs=objective.outputs)
    model = GraphModel(GCN(len(store.manifest.feature_names), 6, 3), readout, head, scale)
    task = GraphTask(model, objective, SPLITS, Recipe(learning_rate=1e-2))
    return task, GraphData(store, store.split(0), SPLITS, seed=0, batch_size=16)


@pytest.mark.parametrize(
    "objective",
    [
        MultiClass(3),
        MultiLabel(("a", "b", "c")),
        Regression(("a", "b", "c"), loss="huber"),
        choose_objective("classification", ("a", "b"), 2, metrics={"F1Score": None, "HammingDistance": None}),
        choose_objective("regression", ("y",), 0, metrics={"R2Score": None}),
    ],
    ids=lambda each: f"{type(each).__name__}-{each.outputs}",
)
def test_every_objective_is_trained_and_measured(small: GraphStore, objective: Objective) -> None:
    random = np.random.default_rng(0)
    if isinstance(objective, MultiClass):
        y = random.integers(0, 3, len(small)).astype(float)
    else:
        y = random.integers(0, 2, (len(small), objective.outputs)).astype(float).squeeze()
    y[::6] = np.nan
    task, data = task_for(with_targets(small, y), objective)
    before = evaluated(task, data)["train"]["loss"]
    trainer, _ = fit(task, data, epochs=15)
    assert task.measured["train"]["loss"] < before
    assert set(task.measured["holdout"]) == set(objective.metrics)
    assert task.measured["holdout"] == pytest.approx(task.measured["holdout_perm"], nan_ok=True)
    for name in objective.metrics:
        assert f"holdout/{name}" in trainer.callback_metrics
    assert task.outputs["train"].shape == (len(data.split.train), objective.outputs)[: 1 + (objective.outputs > 1)]


class Relative(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("floor", torch.tensor(0.5))

    def forward(self, predictions: Tensor, y: Tensor) -> Tensor:
        return ((predictions - y).abs() / (y.abs() + self.floor)).mean()


def log_cosh(predictions: Tensor, y: Tensor) -> Tensor:
    return (predictions - y).cosh().log().mean()


@pytest.mark.parametrize("loss", [Relative(), log_cosh, nn.SmoothL1Loss()], ids=["module", "function", "torch"])
def test_a_loss_of_the_users_is_the_one_that_is_trained_and_measured(small: GraphStore, loss: Any) -> None:
    task, data = task_for(small, Regression(loss=loss))
    batch = next(iter(TrainLoader(data)))
    expected = loss(task.model(batch), batch.y).item()
    _, losses = fit(task, data)
    assert losses.seen[0, 0] == pytest.approx(expected, rel=1e-6)
    y = torch.from_numpy(small.y[data.split.holdout])
    assert task.measured["holdout"]["loss"] == pytest.approx(loss(task.outputs["holdout"], y).item(), rel=1e-5)


@pytest.mark.parametrize("targets", [1, 2])
def test_training_on_standardised_targets_is_training_on_targets_standardised_by_hand(
    small: GraphStore, targets: int
) -> None:
    random = np.random.default_rng(0)
    y = (random.standard_normal((len(small), targets)) * [30, 0.2][:targets] + [100, -4][:targets]).squeeze()
    train = small.split(0).train
    mean, std = standardise_on(torch.from_numpy(y[train]))
    np.testing.assert_allclose(std, y[train].std(axis=0))
    names = ("a", "b")[:targets]
    task, data = task_for(with_targets(small, y), Regression(names, std=std), Standardise(mean, std))
    by_hand, its_data = task_for(with_targets(small, (y - mean.numpy()) / std.numpy()), Regression(names))
    losses, expected = (fit(*pair, epochs=3)[1].seen for pair in ((task, data), (by_hand, its_data)))
    assert losses == pytest.approx(expected, rel=1e-3)
    in_units = mean + std * by_hand.outputs["holdout"]
    torch.testing.assert_close(task.outputs["holdout"].double(), in_units.double(), rtol=1e-3, atol=1e-3)
    errors = (in_units - torch.from_numpy(y[data.split.holdout])).abs().mean(dim=0)
    assert task.measured["holdout"]["mae"] == pytest.approx(float(errors.mean()), rel=1e-2)
    assert task.measured["holdout"]["loss"] == pytest.approx(by_hand.measured["holdout"]["loss"], rel=1e-3)
