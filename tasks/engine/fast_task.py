"""The engine inside Lightning: many optimiser steps per call of `training_step`, no autograd."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from permlab.tasks.data import GraphData
from permlab.tasks.dropout import Dropout
from permlab.tasks.engine.stepper import Stepper
from permlab.tasks.task import GraphTask

STEPS = 32  # per call: a signal is answered, and the bar drawn, after so many


@dataclass
class Call:
    """Successive steps of an epoch; `step` is the last of them."""

    step: int
    batches: list[tuple[int, np.ndarray, np.ndarray]]  # step, graphs, copies


class CallLoader:
    """The training batches of a GraphData, as calls. Where an epoch is resumed, what was done is missing in them."""

    left_out = 0  # calls: they are all there, some of them empty

    def __init__(self, data: GraphData, steps: int) -> None:
        self.data, self.steps = data, steps

    def __len__(self) -> int:
        return -(-self.data.train_steps // self.steps)

    def __iter__(self) -> Iterator[Call]:
        batches = list(self.data.train_plan())
        for first in range(0, self.data.train_steps, self.steps):
            last = min(first + self.steps, self.data.train_steps) - 1
            yield Call(last, [batch for batch in batches if first <= batch[0] <= last])


class FastTask(GraphTask):
    """A GraphTask whose training steps the engine takes. Evaluation is the definition's, as always."""

    def __init__(self, task: GraphTask, stepper: Stepper) -> None:
        super().__init__(task.model, task.objective, task.splits, task.recipe)
        self.automatic_optimization = False
        self._stepper, self._blas = stepper, ThreadpoolController().select(user_api="blas")
        self._noisy = any(isinstance(part, Dropout) and part.p for part in task.modules())

    def loader(self, data: GraphData) -> CallLoader:
        """For `data.train_loader`."""
        return CallLoader(data, 1 if "calls" in self._stepper.without else STEPS)

    def on_fit_start(self) -> None:
        """What Lightning would do to single steps, or to the parameters' memory, cannot be had here."""
        trainer = self.trainer
        if trainer.precision != "32-true" or trainer.limit_train_batches != 1.0 or trainer.max_steps != -1:
            raise ValueError("the engine trains whole epochs in single precision; train the GraphTask itself instead")

    def training_step(self, call: Call, batch_idx: int) -> None:  # type: ignore[override]
        optimizer: Any = self.optimizers(use_pl_optimizer=False)
        with self._blas.limit(limits=1):  # products come in small blocks: to share those out takes longer
            for step, graphs, copies in call.batches:
                if self._noisy:
                    self.seed_noise(step)
                self.add_loss(self._stepper.loss_and_gradients(graphs, copies), len(graphs))
                self._stepper.update(optimizer)
        self._stepper.settle()
        if self._trainer is not None:  # Lightning counts the steps of its own optimisers only
            self.trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress.total.completed += len(
                call.batches
            )

    def release(self) -> None:
        """The model's parameters get memory of their own again."""
        self._stepper.release()
        del self._stepper  # its arrays are nobody's now
