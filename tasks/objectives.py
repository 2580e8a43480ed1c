"""The loss and the metrics, over whole splits, as scikit-learn defines them."""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional
from torchmetrics.functional.classification import binary_accuracy, binary_auroc, binary_average_precision
from torchmetrics.functional.regression import mean_absolute_error

from permlab.tasks.metrics import BY_TASK


class Objective:
    """A loss and metrics of predictions [G] against targets [G]. A subclass implements both."""

    headline: ClassVar[str]  # the metric that a person looks at first

    def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
        """The mean over all graphs, a scalar."""
        raise NotImplementedError

    def measure(self, predictions: Tensor, y: Tensor) -> dict[str, float]:
        """{metric: value}, the loss among them; NaN where a metric is not defined."""
        raise NotImplementedError


class BinaryClassification(Objective):
    """−(1/G) Σ y log s + (1 − y) log(1 − s), s = 1/(1 + e^−z), of logits z [G] and classes 0 and 1; ACC, AUC, AP."""

    headline = BY_TASK["classification"][0]

    def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(predictions, y.to(predictions.dtype))

    def measure(self, predictions: Tensor, y: Tensor) -> dict[str, float]:
        """ACC is at s = 1/2. AUC is NaN when a class is missing, AP when there are no positives.

        Both use the ranks of the logits: after a sigmoid, large logits that differ would tie.
        """
        nan = float("nan")
        if predictions.isnan().any():
            return dict.fromkeys(BY_TASK["classification"], nan)
        classes = y.long()
        ranks = torch.unique(predictions, return_inverse=True)[1].double() / len(predictions)
        positives = int(classes.sum())
        both = 0 < positives < len(classes)
        return {
            "loss": self.loss(predictions.double(), y).item(),
            "acc": binary_accuracy((predictions >= 0).long(), classes, validate_args=False).item(),
            "auc": binary_auroc(ranks, classes, validate_args=False).item() if both else nan,
            "ap": binary_average_precision(ranks, classes, validate_args=False).item() if positives else nan,
        }


class Regression(Objective):
    """(1/G) Σ (z − y)² of predictions z [G] and targets y [G]; MAE."""

    headline = BY_TASK["regression"][0]

    def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
        return functional.mse_loss(predictions, y.to(predictions.dtype))

    def measure(self, predictions: Tensor, y: Tensor) -> dict[str, float]:
        predictions, y = predictions.double(), y.double()
        return {"loss": self.loss(predictions, y).item(), "mae": mean_absolute_error(predictions, y).item()}


OBJECTIVES: dict[str, type[Objective]] = {"classification": BinaryClassification, "regression": Regression}
