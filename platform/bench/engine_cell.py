"""One cell trained by the engine, whole or without a part, or by the plain task. Runs in a worker: see `worker.py`."""

import gc
from typing import Any

from permlab.platform.bench.stopwatch import Stopwatch
from permlab.platform.config import RunSettings
from permlab.platform.engine_choice import register_kernels
from permlab.platform.process_settings import process_for_runs
from permlab.platform.trial import Trial, make_trainer
from permlab.tasks.task import GraphTask


def fast(cell: dict[str, Any], steps: int, without: list[str]) -> float | str:
    """Milliseconds per step of the engine without these parts, or the reason why it refuses."""
    from permlab.tasks.engine.door import Refusal, open_engine

    trial = Trial.prepare(RunSettings.model_validate(cell))
    with process_for_runs(trial.settings.threads):
        task = open_engine(trial.task, trial.data, without=tuple(without))
        if isinstance(task, Refusal):
            return task.reason
        trial.data.train_loader = task.loader
        return _time(trial, task, steps)


def plain(cell: dict[str, Any], steps: int) -> float:
    """Milliseconds per step of the plain task, as train.engine=plain runs it."""
    trial = Trial.prepare(RunSettings.model_validate(cell))
    register_kernels()
    with process_for_runs(trial.settings.threads):
        return _time(trial, trial.task, steps)


def _time(trial: Trial, task: GraphTask, steps: int) -> float:
    epochs = max(1, round(steps / trial.data.train_steps))
    watch = Stopwatch(epochs)
    trainer = make_trainer(trial.settings, [watch])
    gc.collect()
    seconds = watch.time(lambda: trainer.fit(task, datamodule=trial.data))
    return 1000 * seconds / (epochs * trial.data.train_steps)
