"""Run one cell and record it: what `permlab train` and every cell of a sweep do."""

import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from permlab.datasets.cache import locked
from permlab.datasets.store import GraphStore
from permlab.platform.config import RunSettings
from permlab.platform.errors import RunError, RunStopped, StopNow
from permlab.platform.numerics import Numerics
from permlab.platform.record import FAILED, KILLED, Record, summary
from permlab.platform.signals import stop_on_signal
from permlab.platform.trial import Trial


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
    """Run the cell, or give its stored result; returns the document of result.json.

    One process at a time works on a cell. What ends a run before its time is recorded, and raised.
    """
    store = GraphStore.open(settings.dataset, build_missing=True)
    if settings.temporary:
        return summary(Trial.prepare(settings, store).run(callbacks=callbacks)) | {"parameters": 0}
    record = Record(settings, store.manifest)
    try:
        record.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"runs={settings.runs} cannot hold runs: {error.strerror}") from None
    with locked(record.folder / ".lock", lambda: on_wait(record.folder)):
        if fresh:
            record.forget()
        if done := record.finished:
            on_known(record.folder)
            return done
        record.start()

        def before_training(engine: dict[str, str], numerics: list[Numerics]) -> None:
            record.engine(engine, numerics)
            on_start(record.folder)

        def after_epoch(history: list[dict[str, float]]) -> None:
            record.epochs(history)
            on_epoch(history)

        try:
            trial = Trial.prepare(settings, store)
            with stop_on_signal() as stop_signal:
                result = trial.run(
                    callbacks=callbacks, on_start=before_training, on_epoch=after_epoch, stop_signal=stop_signal
                )
            return record.finish(trial, result)
        except (RunStopped, KeyboardInterrupt, StopNow, SystemExit) as stopped:
            record.end(KILLED, str(stopped) or "interrupted")
            raise
        except Exception as error:
            with suppress(OSError):  # a full disk must not hide what went wrong
                record.end(FAILED, str(error), traceback.format_exc())
            if isinstance(error, OSError):
                raise RunError(f"{settings.name}: {error}; fix it and give the same command again") from None
            if isinstance(error, RunError):
                raise RunError(f"{settings.name}: {error}") from None
            raise
