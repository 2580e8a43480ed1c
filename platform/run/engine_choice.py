"""Choose what takes a run's training steps, the compiled engine or the plain definition, and say why.

The engine takes many optimiser steps per call of Lightning. If anything would notice, `auto` chooses the plain path.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytorch_lightning as pl

from permlab.platform.errors import ConfigError
from permlab.platform.run.numerics import device_of
from permlab.platform.settings.run import RunSettings
from permlab.tasks.data import GraphData, TrainLoader
from permlab.tasks.task import GraphTask


@dataclass(frozen=True)
class Engine:
    """`name` is fast or plain; `reason` says why it is plain, and is empty if it is fast."""

    name: str
    reason: str
    task: GraphTask
    data: GraphData

    @property
    def facts(self) -> dict[str, str]:
        return {"name": self.name, "reason": self.reason}

    def release(self) -> None:
        """Restore model and data to their state before the fast engine took them."""
        if self.name == "fast":
            fast: Any = self.task
            fast.release()
            self.data.train_loader = TrainLoader


def choose_engine(
    settings: RunSettings, task: GraphTask, data: GraphData, callbacks: Sequence[pl.Callback] = ()
) -> Engine:
    """The engine that `train.engine` asks for. With the fast one, `data` yields the engine's batches.

    Where the engine cannot run, `fast` is a ConfigError and `auto` is plain.
    """
    register_kernels()
    if settings.train.engine == "plain":
        return Engine("plain", "train.engine=plain", task, data)
    reason = reason_for_plain(settings, callbacks)
    if not reason:
        opened = _open(task, data)
        if isinstance(opened, GraphTask):
            fast: Any = opened
            data.train_loader = fast.loader
            return Engine("fast", "", fast, data)
        reason = opened
    if settings.train.engine == "fast":
        raise ConfigError(f"train.engine=fast: {reason}; choose auto or plain")
    return Engine("plain", reason, task, data)


def reason_for_plain(settings: RunSettings, callbacks: Sequence[pl.Callback]) -> str:
    """Why the engine is not tried; empty if it is."""
    if settings.plain_only:
        return settings.plain_only
    if (device := device_of(settings.accelerator)) != "cpu":
        return f"the device is {device}, and the engine is for the CPU"
    for callback in callbacks:
        if not vars(type(callback)).get("engine_safe"):  # not inherited: a subclass must set it itself
            return (
                f"the callback {type(callback).__name__} may look at single steps (its class has no engine_safe = True)"
            )
    return ""


def _open(task: GraphTask, data: GraphData) -> GraphTask | str:
    """The engine's task, or the reason why there is none."""
    try:
        from permlab.tasks.engine.door import Refusal, open_engine
    except ImportError as error:
        if (error.name or "").partition(".")[0] in ("numba", "llvmlite"):
            return "numba is not installed (pip install 'permlab[fast]')"
        return f"the engine cannot be imported ({error})"
    opened = open_engine(task, data)
    return opened.reason if isinstance(opened, Refusal) else opened


def register_kernels() -> None:
    """Register compiled kernels of single operators, bit-equal to their plain definitions, if numba is installed."""
    try:
        from permlab.tasks.engine.kernels import register
    except ImportError:
        return
    register()
