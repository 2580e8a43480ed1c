"""The engine inside Lightning: the same training as the definition's, many steps per call."""

from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch

from permlab.datasets.store import GraphStore
from permlab.readouts.names import PAPER_METHODS
from permlab.tasks.data import GraphData, TrainLoader
from permlab.tasks.engine.door import open_engine
from permlab.tasks.engine.fast_task import FastTask
from permlab.tasks.engine.optimiser import OPTIMISERS
from permlab.tasks.task import GraphTask, Recipe
from tests.tasks.engine.making import make_data, make_task


def fit(task: GraphTask, data: GraphData, **options: Any) -> pl.Trainer:
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        **options,
    )
    trainer.fit(task, datamodule=data)
    return trainer


def fast(task: GraphTask, data: GraphData, **options: Any) -> FastTask:
    fast_task = open_engine(task, data, **options)
    assert isinstance(fast_task, FastTask)
    data.train_loader = fast_task.loader
    return fast_task


@pytest.mark.parametrize("optimizer", OPTIMISERS)
@pytest.mark.parametrize("method", PAPER_METHODS)
def test_training_agrees_with_autograd(store: GraphStore, method: str, optimizer: str) -> None:
    recipe = Recipe(optimizer=optimizer, learning_rate=1e-4, weight_decay=0.01)
    plain, ours = (make_task(store, method, recipe=recipe) for _ in range(2))
    start = {name: value.clone() for name, value in plain.model.state_dict().items()}
    data = make_data(store, 20)
    fit(plain, data)
    trainer = fit(fast(ours, data), data)
    assert trainer.global_step == data.train_steps == 5
    for name, value in plain.model.state_dict().items():
        moved = float((value - start[name]).abs().max())
        difference = float((value - ours.model.state_dict()[name]).abs().max())
        assert difference <= 0.05 * moved + 1e-6, name


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_the_running_loss_agrees_with_the_definition(store: GraphStore, dropout: float) -> None:
    recipe = Recipe(noise_seed=5, learning_rate=1e-6)
    plain, ours = (make_task(store, "sum", dropout=dropout, recipe=recipe) for _ in range(2))
    data = make_data(store, 20)
    expected = fit(plain, data).callback_metrics["train/running_loss"]
    running = fit(fast(ours, data), data).callback_metrics["train/running_loss"]
    assert float(running) == pytest.approx(float(expected), rel=1e-3)


def test_an_interrupted_epoch_resumes_where_it_stopped(store: GraphStore) -> None:
    data = make_data(store, 8)
    data.train_loader = fast(make_task(store), data).loader
    whole = [batch for call in data.train_dataloader() for batch in call.batches]
    data.resume_at = (0, 5)
    calls = list(data.train_dataloader())
    rest = [batch for call in calls for batch in call.batches]
    assert [step for step, *_ in rest] == list(range(5, data.train_steps))
    assert all(np.array_equal(left[1], right[1]) for left, right in zip(whole[5:], rest, strict=True))
    assert calls[-1].step == data.train_steps - 1


class Loads(pl.Callback):
    """Puts a stored state into the optimiser, as a resumed run does."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.optimizers[0].load_state_dict(self.state)


@pytest.mark.parametrize("first", ["fast", "plain"])
@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_either_way_resumes_from_the_others_state(store: GraphStore, name: str, first: str) -> None:
    """Two epochs, the second one the other way, against two epochs by autograd."""
    recipe = Recipe(optimizer=name, learning_rate=1e-4, weight_decay=0.1)

    def train(ways: tuple[str, str]) -> GraphTask:
        task, data, callbacks = make_task(store, recipe=recipe), make_data(store, 20), []
        for way in ways:
            data.train_loader = TrainLoader
            module = fast(task, data) if way == "fast" else task
            state = fit(module, data, callbacks=callbacks).optimizers[0].state_dict()
            steps = {float(slot["step"]) for slot in state["state"].values() if "step" in slot}
            assert name == "sgd" or steps == {5.0 * (1 + len(callbacks))}
            callbacks = [Loads(state)]
            if way == "fast":
                module.release()
        return task

    mixed, plain = train((first, "plain" if first == "fast" else "fast")), train(("plain", "plain"))
    start = make_task(store, recipe=recipe).model.state_dict()
    for name_of, value in plain.model.state_dict().items():
        moved = float((value - start[name_of]).abs().max())
        assert float((value - mixed.model.state_dict()[name_of]).abs().max()) <= 0.05 * moved + 1e-6, name_of


@pytest.mark.parametrize("part", ["adam", "calls"])
def test_parts_around_the_step_can_be_left_out(store: GraphStore, part: str) -> None:
    whole, without = (make_task(store, recipe=Recipe(learning_rate=1e-4)) for _ in range(2))
    for task, left_out in ((whole, ()), (without, (part,))):
        data = make_data(store, 20)
        assert fit(fast(task, data, without=left_out), data).global_step == 5
    for name, value in whole.model.state_dict().items():
        torch.testing.assert_close(value, without.model.state_dict()[name], rtol=1e-3, atol=1e-5, msg=name)


def test_it_refuses_a_trainer_with_mixed_precision(store: GraphStore) -> None:
    data = make_data(store, 20)
    with pytest.raises(ValueError, match="single precision"):
        fit(fast(make_task(store), data), data, precision="bf16-mixed")


def test_release_gives_the_parameters_their_own_memory(store: GraphStore) -> None:
    task = make_task(store)
    fast_task = fast(task, make_data(store))
    parameters = list(task.parameters())
    assert not any(parameter.untyped_storage().resizable() for parameter in parameters)  # the engine's memory
    before = [parameter.detach().clone() for parameter in parameters]
    fast_task.release()
    assert all(parameter.untyped_storage().resizable() for parameter in parameters)
    assert all(torch.equal(left, right) for left, right in zip(before, parameters, strict=True))
