"""Times the epochs of a Lightning fit, ours or the plain script's, and stops it."""

import time
from collections.abc import Callable

import pytorch_lightning as pl

from permlab.platform.errors import StopNow


class Stopwatch(pl.Callback):
    """Measures from the start of one epoch to the start of the next, so that everything an epoch does counts.

    The first epoch is for warm-up; after `epochs` more the run is stopped.
    """

    engine_safe = True  # it watches epochs, not steps, so the fast engine may run

    def __init__(self, epochs: int) -> None:
        self.epochs, self.starts = epochs, list[float]()

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.starts.append(time.perf_counter())
        if len(self.starts) == self.epochs + 2:
            raise StopNow

    def time(self, fit: Callable[[], object]) -> float:
        """Seconds of the measured epochs."""
        try:
            fit()
        except StopNow:
            return self.starts[-1] - self.starts[1]
        raise AssertionError("the run ended before the stopwatch did")
