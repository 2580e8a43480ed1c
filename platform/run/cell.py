"""Run one cell and record it: what `permlab train` and every cell of a sweep do."""

import tempfile
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from permlab.datasets.cache import locked
from permlab.datasets.store import GraphStore
from permlab.platform.errors import Diverged, RunError, RunStopped, StopNow
from permlab.platform.files.whole_file import disk_error
from permlab.platform.run.numerics import Numerics
from permlab.platform.run.record import Record, summary
from permlab.platform.run.signals import stop_on_signal
from permlab.platform.run.stored_result import FAILED, STOPPED
from permlab.platform.run.training import Training, open_store
from permlab.platform.settings.run import RunSettings


def run_cell(
    settings: RunSettings,
    *,
    fresh: bool = False,
    callbacks: Iterable[pl.Callback] = (),
    on_start: Callable[[Path], None] = lambda folder: None,
    on_known: Callable[[Path], None] = lambda folder: None,
    on_wait: Callable[[Path], None] = lambda folder: None,
    on_epoch: Callable[[list[dict[str, float]]], None] = lambda history: None,
) -> dict[str, Any]:
    """Run the cell, or read its stored result; returns the document of result.json.

    One process at a time works on a cell. An error or a signal that ends a run early is recorded, then raised.
    """
    store = open_store(settings)
    if settings.temporary:
        outcome = Training.prepare(settings, store).run(callbacks=callbacks)
        return summary(outcome) | {"parameters": outcome.parameters}
    record = Record(settings, store)
    try:
        record.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"runs={settings.runs} cannot hold runs: {error.strerror}") from None
    lock = record.folder / ".lock"
    with locked(lock, lambda: on_wait(record.folder)):
        if fresh:
            record.forget()
        result = record.finished
        if result:
            on_known(record.folder)
            if settings.train.profile:
                _profile(settings, store, callbacks)
        else:
            result = _run_recorded(record, store, callbacks, on_start, on_epoch)
        lock.unlink(missing_ok=True)  # while the lock is held: a waiting process then checks again
        return result


def _profile(settings: RunSettings, store: GraphStore, callbacks: Iterable[pl.Callback]) -> None:
    """Train a finished run again for the sake of its profile, and keep nothing of it."""
    with tempfile.TemporaryDirectory() as runs, stop_on_signal() as stop_signal:
        again = Training.prepare(settings.model_copy(update={"runs": runs}), store)
        again.run(callbacks=callbacks, stop_signal=stop_signal)


def _run_recorded(
    record: Record,
    store: GraphStore,
    callbacks: Iterable[pl.Callback],
    on_start: Callable[[Path], None],
    on_epoch: Callable[[list[dict[str, float]]], None],
) -> dict[str, Any]:
    name = record.settings.name

    def before_training(engine: dict[str, str], numerics: list[Numerics]) -> None:
        record.engine(engine, numerics)
        on_start(record.folder)

    def after_epoch(history: list[dict[str, float]]) -> None:
        record.epochs(history)
        on_epoch(history)

    try:
        record.start()
        training = Training.prepare(record.settings, store)
        record.objective(training.task.objective)
        with stop_on_signal() as stop_signal:
            result = training.run(
                callbacks=callbacks, on_start=before_training, on_epoch=after_epoch, stop_signal=stop_signal
            )
        return record.finish(training, result)
    except (RunStopped, KeyboardInterrupt, StopNow, SystemExit) as stopped:
        with suppress(OSError):  # a full disk must not hide why the run ended
            record.end(STOPPED, str(stopped) or "interrupted")
        raise
    except Exception as error:
        reason = disk_error(error, record.folder) if isinstance(error, OSError) else str(error)
        with suppress(OSError):
            record.end(FAILED, reason, traceback.format_exc())
        if isinstance(error, OSError):
            raise RunError(f"{name}: {reason}; fix it and run the same command again") from None
        if isinstance(error, RunError):
            raise (Diverged if isinstance(error, Diverged) else RunError)(f"{name}: {reason}") from None
        raise
