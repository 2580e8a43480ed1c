"""The table of metrics: what each is called and which way is better. It is read without torch."""

from typing import NamedTuple


class Metric(NamedTuple):
    """How a metric is shown, and how two of its values compare."""

    label: str
    higher_is_better: bool


METRICS = {
    "acc": Metric("accuracy", True),
    "auc": Metric("AUC", True),
    "ap": Metric("AP", True),
    "mae": Metric("MAE", False),
    "loss": Metric("loss", False),
}
BY_TASK = {"classification": ("auc", "acc", "ap", "loss"), "regression": ("mae", "loss")}  # the headline first
HEADLINES = tuple(names[0] for names in BY_TASK.values())


def metric_label(metric: str) -> str:
    return METRICS[metric].label if metric in METRICS else metric


def higher_is_better(metric: str | None) -> bool:
    return metric in METRICS and METRICS[metric].higher_is_better
