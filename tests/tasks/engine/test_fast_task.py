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
from permlab.tasks.task import OPTIMIZERS, GraphTask, Recipe
from tests.tasks.engine.making import make_data, make_task


def fit(task: GraphTask, data: GraphData, epochs: int = 1) -> pl.Trainer:
    trainer = pl.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
    )
    trainer.fit(task, datamodule=data)
    return trainer


def fast(task: GraphTask, data: GraphData, **options: Any) -> FastTask:
    made = open_engine(task, data, **options)
    assert isinstance(made, FastTask)
    data.train_loader = made.loader
    return made


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("method", PAPER_METHODS)
def test_training_goes_as_by_autograd(store: GraphStore, method: str, optimizer: str) -> None:
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
def test_the_running_loss_is_the_definitions(store: GraphStore, dropout: float) -> None:
    recipe = Recipe(noise_seed=5, learning_rate=1e-6)
    plain, ours = (make_task(store, "sum", dropout=dropout, recipe=recipe) for _ in range(2))
    data = make_data(store, 20)
    expected = fit(plain, data).callback_metrics["train/running_loss"]
    found = fit(fast(ours, data), data).callback_metrics["train/running_loss"]
    assert float(found) == pytest.approx(float(expected), rel=1e-3)


def test_an_interrupted_epoch_is_taken_up_where_it_was(store: GraphStore) -> None:
    data = make_data(store, 8)
    data.train_loader = fast(make_task(store), data).loader
    whole = [batch for call in data.train_dataloader() for batch in call.batches]
    data.resume_at = (0, 5)
    calls = list(data.train_dataloader())
    rest = [batch for call in calls for batch in call.batches]
    assert [step for step, *_ in rest] == list(range(5, data.train_steps))
    assert all(np.array_equal(left[1], right[1]) for left, right in zip(whole[5:], rest, strict=True))
    assert calls[-1].step == data.train_steps - 1


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_the_optimisers_state_is_torchs(store: GraphStore, name: str) -> None:
    """What is saved after some steps of the engine, plain training resumes from, and the other way round."""
    recipe, data = Recipe(optimizer=name, weight_decay=0.1), make_data(store, 20)
    ours, plain = (make_task(store, recipe=recipe) for _ in range(2))
    saved = fit(fast(ours, data), data).optimizers[0].state_dict()
    data.train_loader = TrainLoader
    expected = fit(plain, data).optimizers[0].state_dict()
    assert saved["state"].keys() == expected["state"].keys()
    for key, theirs in expected["state"].items():
        mine = saved["state"][key]
        assert mine.keys() == theirs.keys() and float(mine["step"]) == float(theirs["step"]) == 5
        for moment in ("exp_avg", "exp_avg_sq"):
            size = float(theirs[moment].abs().max())
            torch.testing.assert_close(mine[moment], theirs[moment], rtol=0.02, atol=0.02 * size)


def test_release_gives_the_parameters_their_own_memory(store: GraphStore) -> None:
    task = make_task(store)
    made = fast(task, make_data(store))
    parameters = list(task.parameters())
    assert not any(each.untyped_storage().resizable() for each in parameters)  # somebody else's memory
    before = [each.detach().clone() for each in parameters]
    made.release()
    assert all(each.untyped_storage().resizable() for each in parameters)
    assert all(torch.equal(left, right) for left, right in zip(before, parameters, strict=True))
