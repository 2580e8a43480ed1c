"""What an objective is: a loss, and metrics over whole splits.

Predictions are [G], or [G, outputs] where there are several; y is [G] or [G, T]; NaN in y is a missing label.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import torch
import torchmetrics
from torch import Tensor, nn

from permlab.tasks.errors import ObjectiveError
from permlab.tasks.losses import LOSSES, LossFunction, find_loss
from permlab.tasks.metrics import Metric, metrics_of
from permlab.tasks.scores import NAN, as_columns, shaped, value_of


class Objective:
    """A loss and metrics. A subclass sets the three attributes and implements `loss` and `scores`."""

    outputs: int = 1  # numbers per graph that the head gives
    headline: str  # the metric that a person looks at first
    metrics: dict[str, Metric]  # all that it measures: the headline first, the loss last
    further: Mapping[str, torchmetrics.Metric] = MappingProxyType({})  # see `add_metrics`
    metric_options: Mapping[str, Any] = MappingProxyType({})  # of TorchMetrics' constructors

    def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
        """A scalar with a gradient: the mean over the labels that are present."""
        raise NotImplementedError

    def scores(self, predictions: Tensor, y: Tensor) -> dict[str, float]:
        """{metric: value} without the loss; NaN where a metric is not defined. Predictions are in double precision."""
        raise NotImplementedError

    def measure(self, predictions: Tensor, y: Tensor) -> dict[str, float]:
        """{metric: value}, the loss first; NaN where a metric is not defined, and all NaN if a prediction is."""
        if predictions.isnan().any():
            return dict.fromkeys(("loss", *self.metrics), NAN)
        predictions = predictions.double()
        with torch.no_grad():
            measured = {"loss": self.loss(predictions, y).item()} | self.scores(predictions, y)
            return measured | self._measure_further(predictions, y)

    def _measure_further(self, predictions: Tensor, y: Tensor) -> dict[str, float]:
        if not self.further:
            return {}
        inputs, measured = self.metric_inputs(predictions, y), {}
        for name, metric in self.further.items():
            try:
                measured[name] = value_of(metric, *inputs)
            except Exception:  # as where a class is missing; `check_metrics` finds a metric that never works
                measured[name] = NAN
        return measured

    def metric_inputs(self, predictions: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions and targets as TorchMetrics takes them: here the values of the graphs with all their labels."""
        y = shaped(y, predictions)
        whole = ~as_columns(y).isnan().any(dim=1)
        return predictions[whole], y[whole].to(predictions.dtype)

    def example(self, graphs: int = 64) -> tuple[Tensor, Tensor]:
        """Made-up predictions and targets, to try metrics on."""
        random = torch.Generator().manual_seed(0)
        shape = (graphs,) if self.outputs == 1 else (graphs, self.outputs)
        predictions, noise = torch.randn((2, *shape), generator=random, dtype=torch.float64)
        return predictions, predictions + noise


class ShippedObjective(Objective):
    """One of the four in objectives.py: its kind, the names of the losses that fit it, and one of them or a function.

    A function gets all predictions and all of y, missing labels included.
    """

    kind: ClassVar[str]
    losses: ClassVar[tuple[str, ...]]  # the default first

    def __init__(self, loss: Any, names: tuple[str, ...] = ("y",)) -> None:
        self.names, self.metrics = names, metrics_of(self.kind, names)
        self.headline = next(iter(self.metrics))
        self.loss_function: LossFunction = find_loss(loss, self.losses, type(self).__name__)

    @property
    def has_default_loss(self) -> bool:
        return self.loss_function is LOSSES[self.losses[0]]

    def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
        return self.apply_loss(predictions, shaped(y, predictions).to(predictions.dtype))

    def apply_loss(self, predictions: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.loss_function, nn.Module):
            self.loss_function.to(predictions.device)  # its buffers; training and evaluation may be on two devices
        loss = self.loss_function(predictions, y)
        if not isinstance(loss, Tensor) or loss.ndim:
            given = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            raise ObjectiveError(f"the loss must give a tensor that is one number, but it gives {given}")
        if torch.is_grad_enabled() and predictions.requires_grad and not loss.requires_grad:
            raise ObjectiveError("the loss has no gradient with respect to the predictions, so nothing can be trained")
        return loss
