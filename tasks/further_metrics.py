"""TorchMetrics metrics that an objective reports beside its own. They are evaluation only: training never sees them.

A metric gets probabilities (classification) or values (regression) of a whole split, in double precision on the CPU.
Missing labels are left out: of several labels they are −1, so that such a metric needs `ignore_index=-1`; of several
targets of a regression, only graphs with all of them count.
"""

import copy
import inspect
import re
import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

import torch
import torchmetrics
import torchmetrics.classification
import torchmetrics.regression

from permlab.tasks.errors import ObjectiveError
from permlab.tasks.metrics import METRICS, Metric, remember, snake_case
from permlab.tasks.objective_base import Objective
from permlab.tasks.scores import value_of

AnyObjective = TypeVar("AnyObjective", bound=Objective)
NAMESPACES = (torchmetrics, torchmetrics.classification, torchmetrics.regression)
ROOMS = ("torchmetrics.classification.", "torchmetrics.regression.")  # others want images, text or sound


def add_metrics(objective: AnyObjective, metrics: Mapping[str, torchmetrics.Metric]) -> AnyObjective:
    """A copy of the objective that also reports these, under their names.

    >>> from permlab.tasks.objectives import Regression
    >>> list(add_metrics(Regression(), {"r2_score": torchmetrics.R2Score()}).metrics)
    ['mae', 'r2_score', 'loss']
    """
    if type(objective).measure is not Objective.measure:
        raise ObjectiveError(f"{type(objective).__name__} overrides measure; let it implement scores instead")
    extended = copy.copy(objective)
    own, loss = dict(objective.metrics), objective.metrics["loss"]
    del own["loss"]
    further = dict(objective.further)
    for name, metric in metrics.items():
        own[name] = _described(name, metric, objective)
        further[name] = metric.clone()
        further[name].set_dtype(torch.float64)
        remember(name, own[name])
    extended.metrics, extended.further = own | {"loss": loss}, further
    return extended


def _described(name: str, metric: Any, objective: Objective) -> Metric:
    """How the metric is shown, and which way is better; or why it cannot be added."""
    if isinstance(metric, type) or not isinstance(metric, torchmetrics.Metric):
        raise ObjectiveError(f"the metric {name} is {metric!r}; give an object of torchmetrics.Metric")
    if name in METRICS or name in objective.metrics or not re.fullmatch(r"[\w-]+", name):
        raise ObjectiveError(f"{name!r} cannot name a metric: choose letters, digits, _ and -, not a name in use")
    kind = type(metric).__name__
    if metric.higher_is_better is None:
        raise ObjectiveError(f"{kind} does not say which way is better; set higher_is_better in a subclass of it")
    plain = re.sub("^(Binary|Multiclass|Multilabel)", "", kind)  # what TorchMetrics makes of F1Score(task="binary")
    label = next((label for label in (kind, plain) if snake_case(label) == name), name)
    return Metric(label, bool(metric.higher_is_better))


def metric_by_name(name: str, objective: Objective, **options: Any) -> torchmetrics.Metric:
    """A metric of TorchMetrics by its class name; what its constructor wants to know about the task (task, num_classes,
    num_labels, num_outputs, ignore_index) comes from the objective.
    """
    known = _classes()
    if name not in known:
        by_lower = {other.lower(): other for other in known}
        close = [by_lower[match] for match in get_close_matches(name.lower(), by_lower, 3)]
        hint = f"did you mean {' or '.join(close)}?" if close else "see the classes of torchmetrics"
        raise ObjectiveError(f"TorchMetrics has no metric {name} for classes or numbers; {hint}")
    takes = inspect.signature(known[name]).parameters
    given = {option: value for option, value in objective.metric_options.items() if option in takes} | options
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some warn that they keep all predictions, which we have anyway
            return known[name](**given)
    except (TypeError, ValueError) as error:
        raise ObjectiveError(f"{name} does not fit {type(objective).__name__}: {_one_line(error)}") from None


def _classes() -> dict[str, type[torchmetrics.Metric]]:
    everything = {name: value for space in NAMESPACES for name, value in vars(space).items()}
    return {
        name: value
        for name, value in everything.items()
        if isinstance(value, type) and issubclass(value, torchmetrics.Metric) and value.__module__.startswith(ROOMS)
    }


def check_metrics(objective: Objective) -> None:
    """Tries the further metrics on made-up data; ObjectiveError if one fails or gives anything but a number."""
    inputs = objective.metric_inputs(*objective.example())
    for name, metric in objective.further.items():
        try:
            value_of(metric, *inputs)
        except Exception as error:  # whatever a metric of one's own raises
            raise ObjectiveError(
                f"the metric {name} does not fit {type(objective).__name__}: {_one_line(error)}"
            ) from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
