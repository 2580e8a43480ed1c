"""A bar over the epochs of one run, with the loss and the latest metric of the split that people look at first."""

import time
from typing import Any

import pytorch_lightning as pl
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from permlab.platform.display.console import err, note
from permlab.platform.run.progress import SHOWN
from permlab.tasks.data import GraphData
from permlab.tasks.task import LOSS, GraphTask

REFRESH = 0.1  # seconds; a step may take less than drawing does


class EpochBar(pl.Callback):
    """A live bar on a terminal; in a log, one line per evaluation, at most one a minute."""

    engine_safe = True  # it works for any number of steps per call

    def __init__(self, name: str, epochs: int) -> None:
        self.name, self.epochs = name, epochs
        self.measured = ""
        self.last_drawn = self.last_noted = 0.0
        self.progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TextColumn("epochs {task.fields[note]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=err,
            disable=not err.shows_bars,
            auto_refresh=False,
        )
        self.bar = self.progress.add_task(name, total=epochs, note="")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.epochs = trainer.max_epochs or self.epochs  # a fast_dev_run has one
        self.progress.update(self.bar, total=self.epochs)
        self.progress.start()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        now = time.monotonic()
        assert isinstance(pl_module, GraphTask)
        if err.shows_bars and now - self.last_drawn > REFRESH:
            self.last_drawn = now
            data: GraphData = trainer.datamodule  # type: ignore[attr-defined]
            self._draw(trainer.current_epoch + (batch.step + 1) / data.train_steps, pl_module.running_loss)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        task = pl_module
        assert isinstance(task, GraphTask)
        split = next(split for split in SHOWN if split in task.measured)
        metric = task.objective.headline
        self.measured = f", {split} {metric} {task.measured[split][metric]:.4f}"
        if not err.shows_bars and time.monotonic() - self.last_noted > 60:
            self.last_noted = time.monotonic()
            done = trainer.current_epoch + (trainer.state.fn == "fit")  # after the fit it counts whole epochs
            note(f"{self.name}: epoch {done} of {self.epochs}{self.measured}")

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, GraphTask)
        if err.shows_bars and time.monotonic() - self.last_drawn > REFRESH:
            self._draw(trainer.current_epoch + 1, pl_module.running_loss)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """All that is to be trained is trained, also if a callback ended it early."""
        if err.shows_bars:
            self.progress.update(self.bar, total=trainer.current_epoch)
            self._draw(trainer.current_epoch, float(trainer.callback_metrics.get(LOSS, 0.0)))  # of the last epoch

    def _draw(self, done: float, loss: float) -> None:
        losses = f"loss {loss:.4f}{self.measured}"
        self.progress.update(self.bar, completed=round(done, 2), note=losses, refresh=True)

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self.progress.stop()
