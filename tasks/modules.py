"""The two tasks as LightningModules: what is minimised, what is measured."""

from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar

import pytorch_lightning as pl
import torch
from torch import Tensor

from permlab.datasets.batch import GraphBatch
from permlab.datasets.randomness import derive_seed
from permlab.readouts.products import on_cpu
from permlab.readouts.tape import Tape
from permlab.tasks.layer import fused_loss
from permlab.tasks.losses import cross_entropy, squared_error
from permlab.tasks.metrics import classification_metrics, regression_metrics
from permlab.tasks.model import GraphModel
from permlab.tasks.optimizer import LeanAdam

OPTIMIZERS: dict[str, Any] = {
    "adam": LeanAdam,
    "adamw": partial(LeanAdam, decoupled_weight_decay=True),
    "sgd": torch.optim.SGD,
}
_NOISE = 31  # entropy of dropout


class GraphTask(pl.LightningModule):
    """Trains a GraphModel. After each evaluation `measured` holds {split: {metric: value}} and `outputs`
    {split: predictions in the order of the split}.
    """

    headline: ClassVar[str]  # the metric that a person looks at first
    higher_is_better: ClassVar[bool]

    def __init__(
        self,
        model: GraphModel,
        splits: tuple[str, ...],
        optimizer: str = "adam",
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        noise_seed: int | None = None,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False  # `training_step` takes several steps
        self.model, self.splits = model, splits
        self.optimizer_name, self.learning_rate, self.weight_decay = optimizer, learning_rate, weight_decay
        self.noise_seed = noise_seed  # None: nothing in the model is random
        self.measured: dict[str, dict[str, float]] = {}
        self.outputs: dict[str, Tensor] = {}
        self._loss_sum, self._loss_count = 0.0, 0  # over the graphs of this epoch, as far as they were added up
        self._losses: list[tuple[Tensor, int]] = []  # the rest, on the device: reading one waits for the device
        self._collected: dict[str, list[tuple[Tensor, Tensor]]] = {}

    def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
        raise NotImplementedError

    def measure(self, predictions: Tensor, y: Tensor) -> dict[str, float]:
        raise NotImplementedError

    def forward(self, batch: GraphBatch) -> Tensor:
        return self.model(batch)

    def training_loss(self, batch: GraphBatch) -> Tensor:
        """`loss` of a batch, at one go where that is one of those that are compiled, and the model is one chain."""
        classes = _COMPILED.get(getattr(self.loss, "__func__", None))
        graphs = len(batch.ptr) - 1
        fits = graphs > 0 and batch.y.shape == (graphs,) and on_cpu(batch.y) and not batch.x.requires_grad
        links = self.model.links(batch) if classes is not None and fits else None
        if classes is None or links is None:
            return self.loss(self.model(batch), batch.y)
        return fused_loss(links, batch.y, classes)

    def training_step(self, batches: Iterable[GraphBatch], batch_idx: int) -> None:
        """One optimiser step a batch."""
        optimizer: Any = self.optimizers(use_pl_optimizer=False)
        for batch in batches:
            if self.noise_seed is not None:
                torch.manual_seed(derive_seed(self.noise_seed, _NOISE, self.current_epoch, batch.step))
            optimizer.zero_grad()
            with Tape() as tape:
                loss = self.training_loss(batch)
            tape.backward(loss)
            optimizer.step()
            self._losses.append((loss.detach(), len(batch.y)))
            del loss  # with it goes what the tape keeps, and the next step may take its place

    def on_train_epoch_end(self) -> None:  # after the callbacks', which may read the loss
        self.resume_loss(0.0, 0)

    def resume_loss(self, loss_sum: float, count: int) -> None:
        """Go on summing the epoch's loss from here."""
        self._loss_sum, self._loss_count, self._losses = loss_sum, count, []

    def loss_so_far(self) -> tuple[float, int]:
        """Sum of the loss over the graphs of this epoch, and how many they are."""
        for loss, count in self._losses:
            self._loss_sum += loss.item() * count
            self._loss_count += count
        self._losses = []
        return self._loss_sum, self._loss_count

    @property
    def running_loss(self) -> float:
        """The mean training loss of this epoch so far."""
        loss_sum, count = self.loss_so_far()
        return loss_sum / max(count, 1)

    def on_validation_epoch_start(self) -> None:
        self._collected = {split: [] for split in self.splits}

    def validation_step(self, batch: GraphBatch, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._collected[self.splits[dataloader_idx]].append((self.model(batch), batch.y))

    def on_validation_epoch_end(self) -> None:
        self.measured, self.outputs = {}, {}
        for split, parts in self._collected.items():
            predictions, y = (torch.cat(column).cpu() for column in zip(*parts, strict=True))
            self.measured[split] = self.measure(predictions, y)
            self.outputs[split] = predictions
        self._collected = {}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        options: dict[str, Any] = {"lr": self.learning_rate, "weight_decay": self.weight_decay}
        if self.device.type in ("cpu", "cuda"):
            options["fused"] = True
        optimizer: torch.optim.Optimizer = OPTIMIZERS[self.optimizer_name](self.parameters(), **options)
        return optimizer


class GraphClassification(GraphTask):
    """Minimises the binary cross entropy; measures ACC, AUC, AP."""

    headline = "auc"
    higher_is_better = True

    def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(predictions, y)

    def measure(self, predictions: Tensor, y: Tensor) -> dict[str, float]:
        return classification_metrics(predictions, y)


class GraphRegression(GraphTask):
    """Minimises the mean square error; measures MAE."""

    headline = "mae"
    higher_is_better = False

    def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
        return squared_error(predictions, y)

    def measure(self, predictions: Tensor, y: Tensor) -> dict[str, float]:
        return regression_metrics(predictions, y)


_COMPILED: dict[Any, bool] = {GraphClassification.loss: True, GraphRegression.loss: False}  # whether it is for classes
TASKS: dict[str, type[GraphTask]] = {"classification": GraphClassification, "regression": GraphRegression}
