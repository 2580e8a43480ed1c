"""The objectives: two classes, several classes, several labels, numbers. Metrics are as scikit-learn defines them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torchmetrics.functional.classification import binary_accuracy, multiclass_f1_score
from torchmetrics.functional.regression import mean_absolute_error

from permlab.tasks.errors import ObjectiveError
from permlab.tasks.further_metrics import add_metrics, check_metrics, metric_by_name
from permlab.tasks.losses import MISSING_CLASS, bce
from permlab.tasks.metrics import BY_KIND, kind_of, snake_case
from permlab.tasks.objective_base import Objective, ShippedObjective
from permlab.tasks.scores import (
    NAN,
    as_columns,
    column_ap,
    column_auc,
    labelled,
    mean_where_defined,
    shaped,
    without_column,
)

__all__ = [
    "BinaryClassification",
    "MultiClass",
    "MultiLabel",
    "Objective",
    "ObjectiveError",
    "Regression",
    "add_metrics",
    "check_metrics",
    "choose_objective",
    "metric_by_name",
]


class _Logistic(ShippedObjective):
    """Whose default loss may weigh positive labels."""

    pos_weight: Tensor | None = None  # [1], or [T] of several labels

    def weigh_positives(self, pos_weight: Tensor | None) -> None:
        if pos_weight is not None and not self.has_default_loss:
            raise ObjectiveError("train.pos_weight weighs the labels of the loss bce; leave out the other loss")
        self.pos_weight = pos_weight

    def apply_loss(self, predictions: Tensor, y: Tensor) -> Tensor:
        if self.pos_weight is None:
            return super().apply_loss(predictions, y)
        return bce(predictions, y, self.pos_weight.to(predictions.device, predictions.dtype, non_blocking=True))


class BinaryClassification(_Logistic):
    """−(1/G) Σ w y log s + (1 − y) log(1 − s), s = 1/(1 + e^−z), of logits z [G] and classes y [G], 0 or 1, with w = 1
    or `pos_weight`; AUC, ACC, AP.
    """

    kind, losses = "binary", ("bce",)
    metric_options = MappingProxyType({"task": "binary"})

    def __init__(self, loss: Any = "auto", pos_weight: Tensor | None = None) -> None:
        super().__init__(loss)
        self.weigh_positives(pos_weight)

    def scores(self, predictions: Tensor, y: Tensor) -> dict[str, float]:
        """ACC is at s = 1/2. AUC is NaN when a class is missing, AP when there are no positives."""
        logits, classes = labelled(predictions, shaped(y, predictions))
        acc = binary_accuracy((logits >= 0).long(), classes, validate_args=False).item() if len(classes) else NAN
        return {"acc": acc, "auc": column_auc(logits, classes), "ap": column_ap(logits, classes)}

    def metric_inputs(self, predictions: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities [K] and classes [K] of the graphs that have a label."""
        logits, classes = labelled(predictions, shaped(y, predictions))
        return logits.sigmoid(), classes

    def example(self, graphs: int = 64) -> tuple[Tensor, Tensor]:
        predictions, noisy = super().example(graphs)
        return predictions, (noisy > 0).to(predictions.dtype)


class MultiClass(ShippedObjective):
    """−(1/G) Σ log softmax(z_g)[y_g] of logits z [G, C] and classes y [G] from 0 to C − 1; ACC, AUC, F1.

    A loss function of one's own gets the classes as int64, −100 where one is missing, as torch's CrossEntropyLoss.
    """

    kind, losses = "multiclass", ("cross_entropy",)

    def __init__(self, classes: int, loss: Any = "auto") -> None:
        if classes < 2:
            raise ObjectiveError(f"MultiClass needs at least 2 classes; classes is {classes}")
        super().__init__(loss)
        self.outputs = self.classes = classes
        self.metric_options = {"task": "multiclass", "num_classes": classes}

    def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
        y = self._classes(predictions, y)
        return self.apply_loss(predictions, y.masked_fill(y.isnan(), MISSING_CLASS).long())

    def scores(self, predictions: Tensor, y: Tensor) -> dict[str, float]:
        """ACC is the share of graphs whose largest logit is that of their class. AUC is the mean over classes c, each
        against the rest, that some graphs have and some have not; F1 is over classes that occur, predicted or true.

        AUC ranks by log p_c/(1 − p_c): after a softmax, large logits that differ would tie.
        """
        logits, classes = labelled(predictions, self._classes(predictions, y))
        if not len(classes):
            return dict.fromkeys(("acc", "auc", "f1"), NAN)
        odds = [logits[:, c] - without_column(logits, c).logsumexp(dim=1) for c in range(self.classes)]
        predicted = logits.argmax(dim=1)
        f1 = multiclass_f1_score(predicted, classes, self.classes, average="macro", validate_args=False)
        return {
            "acc": (predicted == classes).double().mean().item(),
            "auc": mean_where_defined([column_auc(column, (classes == c).long()) for c, column in enumerate(odds)]),
            "f1": f1.item(),
        }

    def metric_inputs(self, predictions: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities [K, C] and classes [K] of the graphs that have a label."""
        logits, classes = labelled(predictions, self._classes(predictions, y))
        return logits.softmax(dim=1), classes

    def example(self, graphs: int = 64) -> tuple[Tensor, Tensor]:
        graphs = max(graphs, 4 * self.classes)
        return super().example(graphs)[0], (torch.arange(graphs) % self.classes).double()

    def _classes(self, predictions: Tensor, y: Tensor) -> Tensor:
        if predictions.ndim != 2 or predictions.size(1) != self.classes:
            raise ObjectiveError(f"{self.classes} classes need {self.classes} logits, not {list(predictions.shape)}")
        return shaped(y, predictions[:, 0])


class MultiLabel(_Logistic):
    """−(1/K) Σ w_t y log s + (1 − y) log(1 − s), s = 1/(1 + e^−z), of logits z [G, T] and labels y [G, T], 0 or 1, over
    the K labels that are present, with w = 1 or `pos_weight` [T]; AUC, AP, ACC.
    """

    kind, losses = "multilabel", ("bce",)

    def __init__(self, names: tuple[str, ...], loss: Any = "auto", pos_weight: Tensor | None = None) -> None:
        super().__init__(loss, tuple(names))
        self.weigh_positives(pos_weight)
        self.outputs = len(self.names)
        self.metric_options = {"task": "multilabel", "num_labels": len(names), "ignore_index": -1}

    def scores(self, predictions: Tensor, y: Tensor) -> dict[str, float]:
        """AUC and AP are means over the labels that are 0 for some graphs and 1 for others, as OGB has it; ACC at
        s = 1/2 is over all present labels.
        """
        y = shaped(y, predictions)
        each = [labelled(*column) for column in zip(as_columns(predictions).T, as_columns(y).T, strict=True)]
        both = [(logits, labels) for logits, labels in each if 0 < int(labels.sum()) < len(labels)]
        logits, labels = labelled(predictions, y)
        return {
            "auc": mean_where_defined([column_auc(*column) for column in both]),
            "ap": mean_where_defined([column_ap(*column) for column in both]),
            "acc": ((logits >= 0) == labels).double().mean().item(),
        }

    def metric_inputs(self, predictions: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities [G, T] and labels [G, T], −1 where one is missing."""
        y = as_columns(shaped(y, predictions))
        return as_columns(predictions).sigmoid(), y.masked_fill(y.isnan(), -1).long()

    def example(self, graphs: int = 64) -> tuple[Tensor, Tensor]:
        """With gaps."""
        predictions, noisy = super().example(graphs)
        y = (noisy > 0).to(predictions.dtype)
        y[::7] = NAN
        return predictions, y


class Regression(ShippedObjective):
    """(1/K) Σ (z − y)² of predictions z and targets y, [G] or [G, T], over the K targets that are present; MAE.

    With `std`, a number or [T], the loss is that of (z − y)/std; the metrics stay in the data's units. See
    `permlab.tasks.model.Standardise`.
    """

    kind, losses = "regression", ("mse", "l1", "huber")

    def __init__(self, names: tuple[str, ...] = ("y",), loss: Any = "auto", std: Tensor | float | None = None) -> None:
        super().__init__(loss, tuple(names))
        self.outputs = len(self.names)
        self.metric_options = {"num_outputs": self.outputs}
        self.std = None if std is None else torch.as_tensor(std, dtype=torch.float64).squeeze()
        if self.std is not None and (self.std.numel() not in (1, self.outputs) or not bool((self.std > 0).all())):
            raise ObjectiveError(f"std must be one positive number, or one for each of the {self.outputs} targets")

    def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
        y = shaped(y, predictions).to(predictions.dtype)
        if self.std is None:
            return self.apply_loss(predictions, y)
        std = self.std.to(predictions.device, predictions.dtype, non_blocking=True)
        return self.apply_loss(predictions / std, y / std)

    def scores(self, predictions: Tensor, y: Tensor) -> dict[str, float]:
        """MAE is the mean over the targets of each target's MAE."""
        each, y = [], as_columns(shaped(y, predictions).double())
        for column, target in zip(as_columns(predictions).T, y.T, strict=True):
            present = ~target.isnan()
            each.append(mean_absolute_error(column[present], target[present]).item() if present.any() else NAN)
        by_target = [name for name in self.metrics if name.startswith("mae_")]
        return {"mae": mean_where_defined(each)} | (dict(zip(by_target, each, strict=True)) if by_target else {})


def choose_objective(
    task: str,
    targets: tuple[str, ...],
    classes: int,
    kind: str = "auto",
    loss: Any = "auto",
    metrics: Mapping[str, Any] | None = None,
    std: Tensor | float | None = None,
    pos_weight: Tensor | None = None,
) -> Objective:
    """The objective for a data set: its task, the names of its targets, how many classes each has.

    kind: binary, multiclass, multilabel, regression, or auto. loss: a name of `losses.LOSSES`, or a function.
    metrics: further ones, {name: TorchMetrics object} or {TorchMetrics class name: None or its options}.
    std: see `Regression`. pos_weight [T]: of positive labels in the loss.
    """
    fitting = kind_of(task, targets, classes)
    if kind not in ("auto", *BY_KIND):
        raise ObjectiveError(f"there is no objective {kind}; choose from auto, {', '.join(BY_KIND)}")
    fits = {fitting} | ({"multiclass", "multilabel"} if fitting == "binary" else set())
    if kind not in ("auto", *fits):
        what = f"{classes} classes" if task == "classification" else "numbers"
        data = f"{len(targets)} target{'s' if len(targets) > 1 else ''} of {what}"
        raise ObjectiveError(f"the objective {kind} does not fit {data}; choose from auto, {', '.join(sorted(fits))}")
    chosen = fitting if kind == "auto" else kind
    if std is not None and chosen != "regression":
        raise ObjectiveError(f"only a regression has standardised targets, but the objective is {chosen}")
    if pos_weight is not None and chosen not in ("binary", "multilabel"):
        raise ObjectiveError(f"train.pos_weight goes with binary and multilabel, but the objective is {chosen}")
    objective: Objective
    if chosen == "binary":
        objective = BinaryClassification(loss, pos_weight)
    elif chosen == "multiclass":
        objective = MultiClass(classes, loss)
    elif chosen == "multilabel":
        objective = MultiLabel(targets, loss, pos_weight)
    else:
        objective = Regression(targets, loss, std)
    if not metrics:
        return objective
    further = {}
    for name, metric in metrics.items():
        by_name = metric is None or isinstance(metric, Mapping)
        further[snake_case(name) if by_name else name] = (
            metric_by_name(name, objective, **metric or {}) if by_name else metric
        )
    objective = add_metrics(objective, further)
    check_metrics(objective)
    return objective
