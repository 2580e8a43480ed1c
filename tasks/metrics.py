"""Metrics over whole splits, as scikit-learn defines them."""

import torch
from torch import Tensor
from torch.nn import functional
from torchmetrics.functional.classification import binary_accuracy, binary_auroc, binary_average_precision
from torchmetrics.functional.regression import mean_absolute_error


def classification_metrics(logits: Tensor, y: Tensor) -> dict[str, float]:
    """BCE (`loss`), ACC at 1/2, AUC and AP of logits [G] against classes 0 and 1 [G].

    AUC is not a number when a class is missing, AP when there are no positives. Both see the ranks of the logits: a
    sigmoid would tie large ones that the logits tell apart.
    """
    classes = y.long()
    ranks = torch.unique(logits, return_inverse=True)[1].double() / len(logits)
    positives = int(classes.sum())
    nan = float("nan")
    if logits.isnan().any():
        return dict.fromkeys(("loss", "acc", "auc", "ap"), nan)
    auc = binary_auroc(ranks, classes, validate_args=False).item() if 0 < positives < len(classes) else nan
    ap = binary_average_precision(ranks, classes, validate_args=False).item() if positives else nan
    return {
        "loss": functional.binary_cross_entropy_with_logits(logits.double(), y.double()).item(),
        "acc": binary_accuracy((logits >= 0).long(), classes, validate_args=False).item(),
        "auc": auc,
        "ap": ap,
    }


def regression_metrics(predictions: Tensor, y: Tensor) -> dict[str, float]:
    """MSE (`loss`) and MAE of predictions [G] against targets [G]."""
    predictions, y = predictions.double(), y.double()
    return {
        "loss": functional.mse_loss(predictions, y).item(),
        "mae": mean_absolute_error(predictions, y).item(),
    }
