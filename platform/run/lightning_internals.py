"""What PermLab needs of Lightning and Lightning keeps private; written for pytorch-lightning 2.6.6.

A run keeps its own checkpoint: small, read without unpickling code, and possible after any training step. Lightning's
public way to resume is a checkpoint of its own, so its counters are set here: of epochs, of batches in the epoch and of
optimiser steps (`trainer.current_epoch`, `batch_idx`, `trainer.global_step`). A newer Lightning may name them
differently; the tests of resumed runs will say so.
"""

from typing import Any

import pytorch_lightning as pl


class SignalProofTrainer(pl.Trainer):
    """Lightning would leave at SIGTERM wherever it is, with exit code 0; a run answers it itself, when it has saved."""

    @property
    def received_sigterm(self) -> bool:
        return False


def set_counters(trainer: pl.Trainer, epoch: int, batches: int, steps: int) -> None:
    """As after `epoch` epochs, `batches` batches of the next one, and `steps` optimiser steps in all."""
    fit_loop: Any = trainer.fit_loop
    loop = fit_loop.epoch_loop
    automatic, manual = loop.automatic_optimization.optim_progress.optimizer, loop.manual_optimization
    for tracker in (fit_loop.epoch_progress.total, fit_loop.epoch_progress.current):
        tracker.ready = tracker.started = tracker.processed = tracker.completed = epoch
    for tracker in (automatic.step.total, manual.optim_step_progress.total):
        tracker.ready = tracker.completed = steps
    total, current = loop.batch_progress.total, loop.batch_progress.current
    total.ready = total.started = total.processed = total.completed = steps
    current.ready = current.started = current.processed = current.completed = batches
    loop._batches_that_stepped = steps
    if batches:  # keep them when the epoch begins
        loop.restarting = True
