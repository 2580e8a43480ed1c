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

STEPS = 32  # per call: signals are handled, and the bar is drawn, between calls


@dataclass
class Call:
    """Successive steps of an epoch; `step` is the last of them."""

    step: int
    batches: list[tuple[int, np.ndarray, np.ndarray]]  # step, graphs, copies


class CallLoader:
    """The training batches of a GraphData, as calls. In a resumed epoch the steps already done are missing."""

    left_out = 0  # calls: always all of them, those already done are empty

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
        """Refuses settings of Lightning that act on single steps or on the parameters' memory."""
        trainer = self.trainer
        if trainer.precision != "32-true" or trainer.limit_train_batches != 1.0 or trainer.max_steps != -1:
            raise ValueError("the engine trains whole epochs in single precision; train the GraphTask itself instead")

    def training_step(self, call: Call, batch_idx: int) -> None:  # type: ignore[override]
        optimizer: Any = self.optimizers(use_pl_optimizer=False)
        with self._blas.limit(limits=1):  # products come in small blocks: distributing them over threads takes longer
            for step, graphs, copies in call.batches:
                if self._noisy:
                    self.seed_noise(step)
                self.add_loss(self._stepper.loss_and_gradients(graphs, copies), len(graphs))
                self._stepper.update(optimizer)
        self._stepper.settle()
        if self._trainer is not None:  # Lightning counts only the steps of its own optimisers
            self.trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress.total.completed += len(
                call.batches
            )

    def release(self) -> None:
        """Gives the model's parameters their own memory again."""
        self._stepper.release()
        del self._stepper  # nobody uses its arrays any more
