"""What Lightning's users expect of a run: clipping, accumulation, schedulers, precision, callbacks, counters."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint

from permlab.platform.errors import RunStopped
from permlab.platform.run.training import Result, Training
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import read_settings
from permlab.readouts.names import PAPER_METHODS

DATA = "dataset=synthetic,graphs=90,max_nodes=8,task=classification"  # 72 of them to train on
STEPS, EPOCHS = 5, 6  # 72 graphs, 16 per step
Cell = Callable[..., Training]


class Stopped(BaseException):
    """Like a kill: nothing gets a chance to save."""


def stop_in(epoch: int) -> Callable[[list[dict[str, float]]], None]:
    def stop(history: list[dict[str, float]]) -> None:
        if history[-1]["epoch"] == epoch:
            raise Stopped

    return stop


class Watch(pl.Callback):
    """Sees every batch, every optimiser step and the rate of every epoch."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int]] = []  # epoch, batch_idx
        self.steps = 0
        self.rates: list[float] = []
        self.norms: list[float] = []  # of the gradients that the optimiser used
        self.global_steps: list[int] = []
        self.metrics: list[dict[str, float]] = []

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.optimizers[0].register_step_post_hook(lambda *args: self._stepped(pl_module))

    def _stepped(self, module: pl.LightningModule) -> None:
        squares = sum(float(weight.grad.square().sum()) for weight in module.parameters() if weight.grad is not None)
        self.norms.append(math.sqrt(squares))

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    def on_before_optimizer_step(self, *args: Any) -> None:
        self.steps += 1

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.batches.append((trainer.current_epoch, batch_idx))
        self.global_steps.append(trainer.global_step)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.metrics.append({name: float(value) for name, value in trainer.callback_metrics.items()})


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    def prepare(*words: str, runs: str = "runs") -> Training:
        fixed = [DATA, f"train.epochs={EPOCHS}", "train.batch_size=16", "train.eval_every=2", f"runs={tmp_path / runs}"]
        return Training.prepare(read_settings(RunSettings, [*fixed, *words]))

    return prepare


def same(left: Result, right: Result) -> None:
    assert left.metrics == right.metrics and left.history == right.history
    assert all(torch.equal(weight, right.weights[name]) for name, weight in left.weights.items())


def test_a_callback_sees_every_batch_and_every_step(cell: Cell) -> None:
    watch = Watch()
    result = cell().run(callbacks=[watch])
    assert watch.batches == [(epoch, batch) for epoch in range(EPOCHS) for batch in range(STEPS)]
    assert watch.steps == EPOCHS * STEPS and watch.global_steps == list(range(1, EPOCHS * STEPS + 1))
    assert result.engine["name"] == "plain" and "Watch" in result.engine["reason"]


def test_callback_metrics_hold_what_was_measured(cell: Cell) -> None:
    watch = Watch()
    result = cell().run(callbacks=[watch])
    for entry, seen in zip(result.history, watch.metrics, strict=True):
        measured = [name for name in entry if name.partition("/")[0] in ("train", "holdout", "holdout_perm")]
        for name in set(measured) - {"train/running_loss"}:
            assert seen[name] == pytest.approx(entry[name], rel=1e-6)
    assert watch.metrics[-1]["train/running_loss"] == pytest.approx(result.history[-2]["train/running_loss"], rel=1e-6)


@pytest.mark.parametrize("clip", [0.05, None])
def test_the_optimiser_gets_clipped_gradients(cell: Cell, clip: float | None) -> None:
    watch = Watch()
    cell(f"train.gradient_clip={clip or 'none'}").run(callbacks=[watch])
    assert len(watch.norms) == EPOCHS * STEPS
    if clip:
        assert max(watch.norms) <= clip * (1 + 1e-5)
    else:
        assert max(watch.norms) > 0.1


def test_gradients_accumulate_in_a_plain_trainer(cell: Cell) -> None:
    """Two batches, one SGD step with the mean of their gradients."""
    training = cell("train.optimizer=sgd", "train.learning_rate=0.1")
    task, data = training.task, training.data
    before = {name: weight.detach().clone() for name, weight in task.model.named_parameters()}
    mean = {name: torch.zeros_like(weight) for name, weight in before.items()}
    for (step, graphs, copies), _ in zip(data.train_plan(), range(2), strict=False):
        batch = data.train_batch(graphs, copies, step)
        gradients = torch.autograd.grad(task.objective.loss(task.model(batch), batch.y), list(task.model.parameters()))
        for name, gradient in zip(before, gradients, strict=True):
            mean[name] += gradient / 2
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        accumulate_grad_batches=2,
        limit_train_batches=2,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(task, datamodule=data)
    assert trainer.global_step == 1
    for name, weight in task.model.named_parameters():
        torch.testing.assert_close(weight.detach(), before[name] - 0.1 * mean[name], atol=1e-6, rtol=1e-5)


def cosine(rate: float) -> list[float]:
    return [rate * (1 + math.cos(math.pi * epoch / EPOCHS)) / 2 for epoch in range(EPOCHS)]


@pytest.mark.parametrize("killed_in", [1, 3, 5])
def test_the_rate_follows_the_cosine_even_after_a_kill(cell: Cell, killed_in: int) -> None:
    words = ["train.scheduler=cosine", "train.learning_rate=0.01", "train.checkpoint_every=1"]
    watch, rest = Watch(), Watch()
    whole = cell(*words, runs="whole").run(callbacks=[watch])
    np.testing.assert_allclose(watch.rates, cosine(0.01), rtol=1e-9)
    with pytest.raises(Stopped):
        cell(*words, runs="parts").run(on_epoch=stop_in(killed_in))
    same(cell(*words, runs="parts").run(callbacks=[rest]), whole)
    assert rest.rates == watch.rates[killed_in:]


@pytest.mark.parametrize("validation", [[], ["data.validation=0.25", "train.eval_every=1"]])
def test_a_plateau_lowers_the_rate_even_after_a_kill(cell: Cell, validation: list[str]) -> None:
    """With tiny steps the loss does not fall: after the 11th epoch without improvement the rate is a tenth."""
    words = [*validation, "train.scheduler=plateau", "train.optimizer=sgd", "train.learning_rate=1e-6"]
    words += ["train.epochs=16", "train.checkpoint_every=1"]
    watch, rest = Watch(), Watch()
    whole = cell(*words, runs="whole").run(callbacks=[watch])
    assert watch.rates[:12] == [1e-6] * 12 and watch.rates[-1] == pytest.approx(1e-7)
    with pytest.raises(Stopped):
        cell(*words, runs="parts").run(on_epoch=stop_in(7))
    same(cell(*words, runs="parts").run(callbacks=[rest]), whole)
    assert rest.rates == watch.rates[7:]


@pytest.mark.parametrize(
    ("words", "monitor"), [([], "train/running_loss"), (["data.validation=0.25"], "validation/loss")]
)
def test_a_plateau_never_watches_the_holdout(cell: Cell, words: list[str], monitor: str) -> None:
    seen = []

    class Look(pl.Callback):
        def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            seen.append((trainer.lr_scheduler_configs[0].monitor, trainer.lr_scheduler_configs[0].frequency))

    cell(*words, "train.scheduler=plateau").run(callbacks=[Look()])
    assert seen == [(monitor, 2 if words else 1)]


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_a_run_in_bf16_mixed(cell: Cell, method: str) -> None:
    training, kinds = cell(f"method={method}", "train.precision=bf16-mixed"), set()
    training.task.model.head.last.register_forward_hook(
        lambda module, args, out: kinds.add((module.training, out.dtype))
    )
    result = training.run()
    assert kinds == {(True, torch.bfloat16), (False, torch.float64)}  # evaluation is in double
    assert all(math.isfinite(value) for value in result.history[-1].values())
    assert result.engine == {"name": "plain", "reason": "train.precision=bf16-mixed"}


def test_training_in_double_precision(cell: Cell) -> None:
    result = cell("train.precision=64", runs="double").run()
    single = cell("train.engine=plain", runs="single").run()
    assert {weight.dtype for weight in result.weights.values()} == {torch.float64}
    loss, rough = (run.history[0]["train/running_loss"] for run in (result, single))
    assert loss != rough and loss == pytest.approx(rough, rel=1e-4)


@pytest.mark.parametrize(("monitor", "words"), [("validation/auc", ["data.validation=0.25"]), ("holdout/auc", [])])
def test_lightnings_own_early_stopping(cell: Cell, monitor: str, words: list[str]) -> None:
    words = [*words, "train.epochs=40", "train.learning_rate=1e-9", "train.optimizer=sgd"]
    result = cell(*words).run(callbacks=[EarlyStopping(monitor, mode="max", patience=2)])
    assert result.epochs == 6  # three evaluations, two of them no better
    assert result.metrics == {
        split: {metric: result.history[-1][f"{split}/{metric}"] for metric in part}
        for split, part in result.metrics.items()
    }


def test_lightnings_own_checkpoints(cell: Cell, tmp_path: Path) -> None:
    kept = ModelCheckpoint(tmp_path / "kept", monitor="holdout/auc", mode="max")
    cell().run(callbacks=[kept])
    state = torch.load(kept.best_model_path, weights_only=False)["state_dict"]
    assert any(name.startswith("model.head") for name in state)


@pytest.mark.parametrize("stop_after", [1, 7, 10, 13])
def test_counters_after_a_resume(cell: Cell, stop_after: int) -> None:
    """Epoch, place in the epoch and global step, as if nothing had happened."""
    whole, first, rest = Watch(), Watch(), Watch()
    cell(runs="whole").run(callbacks=[whole])
    with pytest.raises(RunStopped):
        cell(runs="parts").run(callbacks=[first], stop_signal=lambda: 15 * (len(first.batches) >= stop_after))
    cell(runs="parts").run(callbacks=[rest])
    assert first.batches + rest.batches == whole.batches and rest.batches
    assert first.global_steps + rest.global_steps == whole.global_steps


class Scores(pl.Callback):
    """Weights and validation AUC of every evaluation."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, float, dict[str, torch.Tensor]]] = []

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        weights = {name: weight.clone() for name, weight in pl_module.model.state_dict().items()}
        self.seen.append((trainer.current_epoch + 1, pl_module.measured["validation"]["auc"], weights))


def test_patience_ends_the_run_and_takes_the_best_weights(cell: Cell) -> None:
    words = ["train.patience=3", "data.validation=0.3", "train.epochs=60", "train.learning_rate=0.02", "seed=1"]
    scores = Scores()
    result = cell(*words).run(callbacks=[scores])
    during = [seen for seen in scores.seen if seen[0] <= result.epochs]
    best = max(auc for _, auc, _ in during)
    epoch, _, weights = next(seen for seen in during if seen[1] == best)
    assert result.best_epoch == epoch and result.epochs == epoch + 3 * 2 < 60  # an evaluation every two epochs
    assert result.metrics["validation"]["auc"] == best > result.history[-1]["validation/auc"]
    assert all(torch.equal(weights[name], weight) for name, weight in result.weights.items())
    assert not all(torch.equal(during[-1][2][name], weight) for name, weight in result.weights.items())


@pytest.mark.parametrize("engine", ["plain", "auto"])
@pytest.mark.parametrize("killed_in", [3, 8, 12])
def test_patience_survives_a_kill(cell: Cell, killed_in: int, engine: str) -> None:
    words = ["train.patience=3", "data.validation=0.3", "train.epochs=60", "train.learning_rate=0.02", "seed=1"]
    words += ["train.checkpoint_every=1", f"train.engine={engine}"]
    whole = cell(*words, runs="whole").run()
    with pytest.raises(Stopped):
        cell(*words, runs="parts").run(on_epoch=stop_in(min(killed_in, whole.epochs - 1)))
    rest = cell(*words, runs="parts").run()
    same(rest, whole)
    assert rest.best_epoch == whole.best_epoch
    same(cell(*words, runs="parts").run(), whole)  # its checkpoint says that nothing is left to train
