"""The table of metrics: what each is called and which way is better. It is read without torch."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from permlab.tasks.errors import ObjectiveError


class Metric(NamedTuple):
    """How a metric is shown, and how two of its values compare."""

    label: str
    higher_is_better: bool


METRICS = {
    "acc": Metric("accuracy", True),
    "auc": Metric("AUC", True),
    "ap": Metric("AP", True),
    "f1": Metric("F1", True),
    "mae": Metric("MAE", False),
    "loss": Metric("loss", False),
}
BY_KIND = {  # of objective; the headline first
    "binary": ("auc", "acc", "ap", "loss"),
    "multiclass": ("acc", "auc", "f1", "loss"),
    "multilabel": ("auc", "ap", "acc", "loss"),
    "regression": ("mae", "loss"),
}
_remembered: dict[str, Metric] = {}


def remember(name: str, metric: Metric) -> None:
    """Adds a metric that is not in the table: of a plug-in, or read from a stored run. The table's own stay as they
    are.
    """
    if name not in METRICS:
        _remembered[name] = metric


def find_metric(name: str) -> Metric | None:
    """`mae_alpha`, the MAE of the target alpha, is found by the part before its first underscore."""
    if metric := METRICS.get(name) or _remembered.get(name):
        return metric
    first, _, target = name.partition("_")
    return Metric(f"{METRICS[first].label} {target}", METRICS[first].higher_is_better) if first in METRICS else None


def metric_label(name: str) -> str:
    metric = find_metric(name)
    return metric.label if metric else name


def higher_is_better(name: str | None) -> bool:
    metric = find_metric(name or "")
    return metric is not None and metric.higher_is_better


def in_order(names: Iterable[str]) -> list[str]:
    """In the order of the table, then the others; the loss last."""
    order = [name for name in METRICS if name != "loss"]
    return sorted(names, key=lambda name: (name == "loss", order.index(name) if name in order else len(order), name))


def headline_of(names: Iterable[str]) -> str:
    """The metric that a person looks at first, among those that were measured; empty if there are none."""
    measured = set(names)
    for of_kind in BY_KIND.values():
        if measured.issuperset(of_kind):
            return of_kind[0]
    first = [of_kind[0] for of_kind in BY_KIND.values()]
    return next((name for name in (*first, *in_order(measured)) if name in measured), "")


def kind_of(task: str, targets: Sequence[str], classes: int) -> str:
    """The kind of objective, one of BY_KIND, that fits a data set: its task, its targets, how many classes each has."""
    if task == "regression":
        return "regression"
    if task != "classification":
        raise ObjectiveError(f"there is no task {task}; choose from classification, regression")
    if len(targets) > 1:
        if classes > 2:
            raise ObjectiveError(f"{len(targets)} targets of {classes} classes: choose one, or targets of two classes")
        return "multilabel"
    if classes < 2:
        raise ObjectiveError(f"a classification needs at least 2 classes, but {targets[0]} has {classes}")
    return "binary" if classes == 2 else "multiclass"


def metrics_of(kind: str, targets: Sequence[str] = ()) -> dict[str, Metric]:
    """What an objective of this kind measures, the headline first, the loss last; with several targets the MAE of each
    as `mae_NAME`.
    """
    headline, *others = BY_KIND[kind]
    of_targets = [f"mae_{name}" for name in safe_names(targets)] if kind == "regression" and len(targets) > 1 else []
    metrics = {name: find_metric(name) for name in (headline, *of_targets, *others)}
    return {name: metric for name, metric in metrics.items() if metric}


def safe_names(names: Sequence[str]) -> list[str]:
    """Letters, digits, _ and - only; names that would be equal get their position."""
    safe = [re.sub(r"[^\w-]", "_", name) for name in names]
    count = Counter(safe)
    return [name if count[name] == 1 else f"{name}_{place}" for place, name in enumerate(safe)]


def snake_case(name: str) -> str:
    """MatthewsCorrCoef → matthews_corr_coef."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
