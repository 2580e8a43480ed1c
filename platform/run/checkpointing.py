"""Keep a run's state while Lightning trains: history, checkpoints, early stopping, signals."""

import io
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from permlab.platform.errors import Diverged, RunError, RunStopped
from permlab.platform.run.checkpoint import RunState, save_state
from permlab.platform.run.progress import flat
from permlab.platform.settings.run import TrainSettings
from permlab.tasks.task import LOSS, GraphTask

OnEpoch = Callable[[list[dict[str, float]]], None]


class Keeper(pl.Callback):
    """Closes an epoch (saves it and passes it to `on_epoch`) when the next one starts or training ends, not before:
    Lightning steps the learning rate after its callbacks have seen the epoch's end, and the checkpoint must hold it.
    """

    engine_safe = True  # it needs the last step, not every one

    def __init__(
        self,
        state: RunState,
        path: Path | None,
        train: TrainSettings,
        on_epoch: OnEpoch,
        stop_signal: Callable[[], int],
    ) -> None:
        self.state, self.path, self.train, self.on_epoch, self.stop_signal = state, path, train, on_epoch, stop_signal
        self.started = time.perf_counter()
        self.next_batch = 0  # in this epoch
        self.open_epoch = False  # it ended, but is not closed yet
        self.watched: dict[str, pl.Callback] = {}  # callbacks whose state is kept too, by name

    @property
    def over(self) -> bool:
        """Is there nothing left to train?"""
        return self.state.epoch >= self.train.epochs or self.out_of_patience or bool(self.state.ended_early)

    @property
    def out_of_patience(self) -> bool:
        return self.train.patience is not None and self.state.waited >= self.train.patience

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        state = self.state
        self.started = time.perf_counter() - state.seconds
        if state.optimizer:
            trainer.optimizers[0].load_state_dict(state.optimizer)
            for config in trainer.lr_scheduler_configs:
                config.scheduler.load_state_dict(state.scheduler)
            trainer.precision_plugin.load_state_dict(state.scaler)
            _task(trainer).resume_loss(state.loss_sum, state.loss_count)
            for name, callback in self.watched.items():
                if name in state.callbacks:
                    callback.load_state_dict(state.callbacks[name])

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._close(trainer)
        task = _task(trainer)
        task.measured, task.outputs = {}, {}
        self.next_batch = self.state.batch  # where the epoch is resumed

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if self.stop_signal():  # all callbacks have seen the end of the previous batch
            self.state.batch = self.next_batch
            self._save(trainer)
            self._stop()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.next_batch = max(self.next_batch, batch.step + 1)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        task, state, epoch = _task(trainer), self.state, trainer.current_epoch + 1
        self.check(task, epoch)
        state.history.append({"epoch": epoch, LOSS: task.running_loss})
        state.epoch, state.batch = epoch, 0
        if task.measured:
            self.evaluated(task)
        trainer.should_stop |= self.out_of_patience
        state.seconds = time.perf_counter() - self.started
        self.open_epoch = True

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        epoch, epochs, batches = self.state.epoch, trainer.max_epochs or 0, trainer.datamodule.train_steps  # type: ignore[attr-defined]
        if epoch < epochs and not self.out_of_patience and not self.stop_signal():
            cut = self.next_batch < batches
            last = f"in epoch {epoch} of {epochs}, after {self.next_batch} of {batches} batches"
            self.state.ended_early = last if cut else f"after epoch {epoch} of {epochs}"
        self._close(trainer, last=True)

    def evaluated(self, task: GraphTask) -> None:
        """Add the metrics of the last epoch to the history, and compare its weights with the best."""
        state, objective = self.state, task.objective
        state.history[-1] |= flat(task.measured)
        if self.train.patience is None:
            return
        monitor = self.train.monitor or objective.headline
        score = task.measured["validation"][monitor]
        best = state.best_score
        sign = 1 if objective.metrics[monitor].higher_is_better else -1
        if not math.isnan(score) and (best is None or sign * score > sign * best):
            state.best_score, state.best_epoch, state.waited = score, state.epoch, 0
            state.best_weights = {name: weight.cpu().clone() for name, weight in task.model.state_dict().items()}
        else:
            state.waited += 1

    def check(self, task: GraphTask, epoch: int) -> None:
        """Raise if a loss, in training or evaluation, is NaN or infinite."""
        losses = {"loss": task.running_loss} | {f"{split} loss": part["loss"] for split, part in task.measured.items()}
        for name, loss in losses.items():
            if not math.isfinite(loss):
                kept = self.path and self.path.exists()
                good = f"the last good checkpoint is {self.path}" if kept else "there is no checkpoint before it"
                raise Diverged(f"the {name} is {loss} in epoch {epoch}; {good}; try a smaller train.learning_rate")

    def _close(self, trainer: pl.Trainer, last: bool = False) -> None:
        if not self.open_epoch:
            return
        self.open_epoch = False
        stopped = self.stop_signal()
        if last or stopped or self.state.epoch % self.train.checkpoint_every == 0:
            self._save(trainer)
        if not last or _task(trainer).outputs:  # else the last epoch is passed on once, after its evaluation
            self.on_epoch(self.state.history)
        if stopped:
            self._stop()

    def _save(self, trainer: pl.Trainer) -> None:
        task, state = _task(trainer), self.state
        if self.path is None or not all(bool(weight.isfinite().all()) for weight in task.parameters()):
            return  # never save NaN weights; the next loss will raise
        state.seconds = time.perf_counter() - self.started
        state.model = task.model.state_dict()
        state.optimizer = trainer.optimizers[0].state_dict()
        for config in trainer.lr_scheduler_configs:
            state.scheduler = config.scheduler.state_dict()
        state.scaler = trainer.precision_plugin.state_dict()
        state.loss_sum, state.loss_count = task.loss_so_far()
        state.callbacks = {name: readable(name, callback.state_dict()) for name, callback in self.watched.items()}
        save_state(state, self.path)

    def _stop(self) -> None:
        where = f"epoch {self.state.epoch + 1}, batch {self.state.batch + 1}"
        kept = self.path is not None and self.path.exists()
        then = f"the same command resumes from {self.path}" if kept else "nothing was saved"
        raise RunStopped(f"stopped before {where}; {then}", self.stop_signal())


def readable(name: str, state: dict[str, Any]) -> dict[str, Any]:
    """The state of a callback, if a checkpoint can hold it: checkpoints are read without unpickling code."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    try:
        torch.load(file, weights_only=True)
    except Exception as error:  # torch raises many kinds
        reason = str(error).splitlines()[0][:200]
        raise RunError(f"the state of {name} holds more than numbers, words, tensors and lists: {reason}") from None
    return state


def _task(trainer: pl.Trainer) -> GraphTask:
    task = trainer.lightning_module
    assert isinstance(task, GraphTask)
    return task
