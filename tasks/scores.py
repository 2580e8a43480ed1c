"""Scores of one column of predictions, values of TorchMetrics objects, and the shapes that objectives share."""

import warnings
from statistics import fmean

import torch
import torchmetrics
from torch import Tensor
from torchmetrics.functional.classification import binary_auroc, binary_average_precision

from permlab.tasks.errors import ObjectiveError

NAN = float("nan")


def shaped(y: Tensor, predictions: Tensor) -> Tensor:
    """y with the shape of predictions; [G, 1] and [G] are the same."""
    if y.numel() != predictions.numel() or len(y) != len(predictions):
        raise ObjectiveError(f"predictions are {list(predictions.shape)}, but y is {list(y.shape)}")
    return y.reshape(predictions.shape)


def as_columns(values: Tensor) -> Tensor:
    """[G] or [G, T] → [G, T]."""
    return values.reshape(len(values), -1)


def labelled(predictions: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Predictions and classes, int64, where y is present."""
    present = ~y.isnan()
    return predictions[present], y[present].long()


def without_column(logits: Tensor, column: int) -> Tensor:
    return torch.cat([logits[:, :column], logits[:, column + 1 :]], dim=1)


def ranks(scores: Tensor) -> Tensor:
    """[G] from 0 to 1, in the order of the scores: after a sigmoid, large logits that differ would tie."""
    return torch.unique(scores, return_inverse=True)[1].double() / len(scores)


def column_auc(scores: Tensor, classes: Tensor) -> float:
    """NaN when a class is missing."""
    both = 0 < int(classes.sum()) < len(classes)
    return binary_auroc(ranks(scores), classes, validate_args=False).item() if both else NAN


def column_ap(scores: Tensor, classes: Tensor) -> float:
    """NaN when there are no positives."""
    positives = bool(classes.any())
    return binary_average_precision(ranks(scores), classes, validate_args=False).item() if positives else NAN


def mean_where_defined(values: list[float]) -> float:
    defined = [value for value in values if value == value]
    return fmean(defined) if defined else NAN


def value_of(metric: torchmetrics.Metric, predictions: Tensor, target: Tensor) -> float:
    """Of several targets of a regression a metric may give one number each: their mean."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric.reset()
        metric.update(predictions, target)
        value = metric.compute()
        metric.reset()
    value = torch.as_tensor(value, dtype=torch.float64)
    several_targets = target.ndim == 2 and target.is_floating_point()
    if value.numel() != 1 and not (several_targets and value.shape == target.shape[1:]):
        raise ValueError(f"it gives {value.numel()} numbers instead of one")
    return value.mean().item()
