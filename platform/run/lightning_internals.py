"""The private parts of Lightning that PermLab needs; written for pytorch-lightning 2.6.6.

A run keeps its own checkpoint: small, read without unpickling code, and possible after any training step. Lightning
can resume only from its own checkpoints, so its counters are set here: epochs, batches in the epoch and optimiser
steps (`trainer.current_epoch`, `batch_idx`, `trainer.global_step`). If a newer Lightning renames them, the tests of
resumed runs will fail.
"""

from typing import Any

import pytorch_lightning as pl


class SignalProofTrainer(pl.Trainer):
    """Leaves SIGTERM to the run, which saves first; Lightning would exit at once, with exit code 0."""

    @property
    def received_sigterm(self) -> bool:
        return False


def set_counters(trainer: pl.Trainer, epoch: int, batches: int, steps: int) -> None:
    """Set the counters as after `epoch` epochs, `batches` batches of the next one, and `steps` steps in all."""
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
    if batches:  # else Lightning resets them when the epoch begins
        loop.restarting = True
