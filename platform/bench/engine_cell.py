"""One cell trained by the engine, whole or without a part, or by the plain task. Runs in a worker: see `worker.py`."""

import gc
from typing import Any

from permlab.platform.bench.stopwatch import Stopwatch
from permlab.platform.run.engine_choice import register_kernels
from permlab.platform.run.process_settings import process_for_runs
from permlab.platform.run.training import Training, make_trainer
from permlab.platform.settings.run import RunSettings
from permlab.tasks.task import GraphTask


def fast(cell: dict[str, Any], steps: int, without: list[str]) -> float | str:
    """Milliseconds per step of the engine without these parts, or the reason why it refuses."""
    from permlab.tasks.engine.door import Refusal, open_engine

    training = Training.prepare(RunSettings.model_validate(cell))
    with process_for_runs(training.settings.threads):
        task = open_engine(training.task, training.data, without=tuple(without))
        if isinstance(task, Refusal):
            return task.reason
        training.data.train_loader = task.loader
        return _time(training, task, steps)


def plain(cell: dict[str, Any], steps: int) -> float:
    """Milliseconds per step of the plain task, as train.engine=plain runs it."""
    training = Training.prepare(RunSettings.model_validate(cell))
    register_kernels()
    with process_for_runs(training.settings.threads):
        return _time(training, training.task, steps)


def _time(training: Training, task: GraphTask, steps: int) -> float:
    epochs = max(1, round(steps / training.data.train_steps))
    watch = Stopwatch(epochs)
    trainer = make_trainer(training.settings, [watch])
    gc.collect()
    seconds = watch.time(lambda: trainer.fit(task, datamodule=training.data))
    return 1000 * seconds / (epochs * training.data.train_steps)
