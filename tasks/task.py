"""GraphTask: a GraphModel and an objective as an ordinary LightningModule."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim.lr_scheduler import CosineAnnealingLR, ReduceLROnPlateau

from permlab.datasets.batch import GraphBatch
from permlab.datasets.randomness import derive_seed
from permlab.tasks.objectives import Objective

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
    "momentum": partial(torch.optim.SGD, momentum=0.9),
}
LOSS = "train/running_loss"  # the mean loss of the epoch's training steps, as callbacks find it
_NOISE = 31  # entropy that separates the uses of a seed


@dataclass(frozen=True)
class Recipe:
    """How the weights are optimised."""

    optimizer: str = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    scheduler: str = "none"  # cosine: to 0 over `epochs`; plateau: a tenth when `monitor` has not fallen in 10 values
    epochs: int = 1
    monitor: str = LOSS
    monitor_every: int = 1  # epochs between two values of `monitor`
    noise_seed: int = 0  # dropout masks are a function of this seed, the epoch and the step


class GraphTask(pl.LightningModule):
    """Trains a GraphModel: one optimiser step per batch, automatic optimisation.

    After each evaluation `measured` holds {split: {metric: value}} and `outputs` {split: predictions in the order of
    the split}, without splits that have no graphs; callbacks find the same numbers as `split/metric` in
    `trainer.callback_metrics`.
    """

    def __init__(
        self, model: nn.Module, objective: Objective, splits: tuple[str, ...] = ("train",), recipe: Recipe | None = None
    ) -> None:
        super().__init__()
        self.model, self.objective, self.splits, self.recipe = model, objective, splits, recipe or Recipe()
        self.measured: dict[str, dict[str, float]] = {}
        self.outputs: dict[str, Tensor] = {}
        self._loss_sum, self._loss_count = 0.0, 0  # sum over the graphs of this epoch, as far as added up
        self._losses: list[tuple[Tensor | float, int]] = []  # the losses still on the device: reading one waits for it
        self._collected: dict[str, list[tuple[Tensor, Tensor]]] = {}
        self._weights: dict[str, Tensor] = {}  # of an evaluation

    def forward(self, batch: GraphBatch) -> Tensor:
        return self.model(batch)

    def training_step(self, batch: GraphBatch, batch_idx: int) -> Tensor:
        self.seed_noise(batch.step)
        loss = self.objective.loss(self.model(batch), batch.y)
        self.add_loss(loss.detach(), len(batch))
        return loss

    def seed_noise(self, step: int) -> None:
        """Seeds dropout, so that this step has the same masks in a resumed run."""
        torch.manual_seed(derive_seed(self.recipe.noise_seed, _NOISE, self.current_epoch, step))

    def add_loss(self, loss: Tensor | float, count: int) -> None:
        """Adds the loss of one step over this many graphs."""
        self._losses.append((loss, count))

    def on_train_epoch_end(self) -> None:
        self.log(LOSS, self.running_loss)
        self.resume_loss(0.0, 0)

    def resume_loss(self, loss_sum: float, count: int) -> None:
        """Continue to sum the epoch's loss from here."""
        self._loss_sum, self._loss_count, self._losses = loss_sum, count, []

    def loss_so_far(self) -> tuple[float, int]:
        """Sum of the loss over the graphs of this epoch, and how many they are."""
        for loss, count in self._losses:
            self._loss_sum += float(loss) * count
            self._loss_count += count
        self._losses = []
        return self._loss_sum, self._loss_count

    @property
    def running_loss(self) -> float:
        """The mean training loss of this epoch so far."""
        loss_sum, count = self.loss_so_far()
        return loss_sum / max(count, 1)

    def on_validation_epoch_start(self) -> None:
        """Evaluation is in double precision where the device has it, and rounded at the end.

        Graphs that are equal but for the order of their nodes then get equal predictions, and ties tie.
        """
        dtype = torch.float32 if self.device.type == "mps" else torch.float64
        state = [*self.model.named_parameters(), *self.model.named_buffers()]
        self._weights = {name: each.to(dtype) if each.is_floating_point() else each for name, each in state}
        self._collected = {}

    def validation_step(self, batch: GraphBatch, batch_idx: int, dataloader_idx: int = 0) -> None:
        predictions = functional_call(self.model, self._weights, (batch,)).float()
        self._collected.setdefault(self.splits[dataloader_idx], []).append((predictions, batch.y))

    def on_validation_epoch_end(self) -> None:
        self.measured, self.outputs = {}, {}
        for split, parts in self._collected.items():
            predictions, y = (torch.cat(column).cpu() for column in zip(*parts, strict=True))
            self.measured[split] = self.objective.measure(predictions, y)
            self.outputs[split] = predictions
            self.log_dict({f"{split}/{metric}": value for metric, value in self.measured[split].items()})
        self._collected, self._weights = {}, {}

    def configure_optimizers(self) -> Any:
        recipe = self.recipe
        fused = self.device.type in ("cpu", "cuda") and self.trainer.precision in ("32-true", "64-true")
        options: dict[str, Any] = {
            "lr": recipe.learning_rate,
            "weight_decay": recipe.weight_decay,
            "fused": fused or None,
        }
        optimizer = OPTIMIZERS[recipe.optimizer](self.parameters(), **options)
        if recipe.scheduler == "none":
            return optimizer
        if recipe.scheduler == "cosine":
            return {"optimizer": optimizer, "lr_scheduler": CosineAnnealingLR(optimizer, recipe.epochs)}
        plateau = {"scheduler": ReduceLROnPlateau(optimizer), "monitor": recipe.monitor}
        return {"optimizer": optimizer, "lr_scheduler": plateau | {"frequency": recipe.monitor_every}}
