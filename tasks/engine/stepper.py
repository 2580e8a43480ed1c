"""One training step of a whole model: batch, loss, every gradient, optimiser; no autograd, no tensor in between."""

from typing import Any

import numpy as np
import torch

from permlab.tasks.data import GraphData
from permlab.tasks.engine.batches import Batches
from permlab.tasks.engine.dense import cross_entropy, squared_error
from permlab.tasks.engine.layers import Convolutions, DenseHead
from permlab.tasks.engine.optimiser import FlatOptimiser, FlatParameters
from permlab.tasks.engine.pools import POOLS, Pool, early_pool
from permlab.tasks.engine.room import Room
from permlab.tasks.objectives import BinaryClassification, Regression
from permlab.tasks.task import GraphTask

LOSSES: dict[type, Any] = {BinaryClassification: cross_entropy, Regression: squared_error}
PARTS = {
    "early": "the sum, Set2Set and wide kernels are taken before the last, linear layer of Γ",
    "ragged": "the first layer of ζ skips the padding",
    "sort": "the compiled segmented sort",
    "adam": "the optimiser as one pass over one array",
    "calls": "many steps per Lightning call",
}


class Stepper:
    """`loss_and_gradients` of a batch, then `update`. The model's parameters live in `flat` until `release`."""

    def __init__(self, task: GraphTask, data: GraphData, without: tuple[str, ...] = ()) -> None:
        model: Any = task.model
        gcn, readout, head = model.backbone, model.readout, model.head
        self.without, self.batches = without, Batches(data)
        self.flat, self.room = FlatParameters(list(task.parameters())), Room()
        early = None if "early" in without else early_pool(gcn, readout, self.flat, self.room)
        self.convolutions = Convolutions(gcn, self.flat, self.room, len(gcn.weights) - (early is not None))
        self.pool: Pool = early or POOLS[type(readout)](readout, self.flat, self.room)
        self.pool.compiled_sort = "sort" not in without  # type: ignore[attr-defined]
        self.head = DenseHead(head, self.flat, self.room, "ragged" in without)
        self.loss = LOSSES[type(task.objective)]
        self.optimiser: FlatOptimiser | None = None

    def loss_and_gradients(self, graphs: np.ndarray, copies: np.ndarray) -> float:
        """The mean loss of these graphs; the gradients go to `flat.gradients`."""
        self.room.clear()
        batch = self.batches.make(graphs, copies)
        predictions = self.head.forward(self.pool.forward(self.convolutions.forward(batch), batch), batch)
        grad = self.room.take(len(predictions))
        loss: float = self.loss(predictions, batch.y, grad)
        self.convolutions.backward(self.pool.backward(self.head.backward(grad)))
        return loss

    def update(self, optimizer: torch.optim.Optimizer) -> None:
        """One step of the optimiser."""
        if "adam" in self.without:
            for parameter in self.flat.parameters:
                parameter.grad = torch.from_numpy(self.flat.of(parameter)[1])
            optimizer.step()
            return
        if self.optimiser is None or self.optimiser.optimizer is not optimizer:
            self.optimiser = FlatOptimiser(optimizer, self.flat)
        self.optimiser.step()

    def settle(self) -> None:
        """Makes the optimiser's state what torch expects, between two calls."""
        if self.optimiser is not None:
            self.optimiser.settle()

    def release(self) -> None:
        self.flat.release()
