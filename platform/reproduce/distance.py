"""How far our numbers are from the paper's, in units of how much the paper's own numbers differ.

distance = √ mean over metrics m, cells c of ((ours_mc − paper_mc) / s_m)²

A cell is one run of a (method, d). s_m is the standard deviation of the paper's numbers of this metric over its methods
and widths, in the same split. So every metric counts the same, 0 is the paper itself, and √2 is what one would get by
exchanging its cells at random.
"""

import math
from collections.abc import Iterable, Mapping
from functools import cache
from statistics import pstdev

from permlab.platform.errors import ConfigError
from permlab.platform.report.results import paper_numbers
from permlab.readouts.names import PAPER_METHODS

DIVERGED = 5.0  # what every metric of a run counts whose loss became NaN


def paper_dataset(dataset: str) -> str:
    """The paper's data set that this one is, or is a part of."""
    head, known = dataset.partition(",")[0], {kind[0] for kind in paper_numbers()}
    if head not in known:
        raise ConfigError(f"the paper has no numbers for {dataset}; choose from {', '.join(sorted(known))}")
    return head


def check_cell(dataset: str, method: str, d: int) -> None:
    """Refuse a cell that the paper does not have."""
    name = paper_dataset(dataset)
    if method not in PAPER_METHODS:
        raise ConfigError(f"the paper has no method {method}; choose from {', '.join(PAPER_METHODS)}")
    widths = sorted({kind[1] for kind in paper_numbers() if kind[0] == name})
    if d not in widths:
        raise ConfigError(f"the paper has no numbers for d={d}; choose from {', '.join(map(str, widths))}")


@cache
def spreads(dataset: str, split: str) -> dict[str, float]:
    """s_m of every metric."""
    values: dict[str, list[float]] = {}
    for (name, _, _, part, metric), value in paper_numbers().items():
        if (name, part) == (dataset, split):
            values.setdefault(metric, []).append(value)
    return {metric: pstdev(numbers) for metric, numbers in values.items()}


def misses(
    dataset: str, method: str, d: int, split: str, measured: Mapping[str, float | None] | None
) -> dict[str, float]:
    """(ours − paper) / s_m of every metric that the paper has; `measured` is None for a run that diverged."""
    name, numbers = paper_dataset(dataset), paper_numbers()
    missed = {}
    for metric, spread in spreads(name, split).items():
        value = None if measured is None else measured.get(metric)
        bad = value is None or not math.isfinite(value)
        missed[metric] = DIVERGED if bad else (value - numbers[name, d, method, split, metric]) / spread  # type: ignore[operator]
    return missed


def distance(missed: Iterable[Mapping[str, float]]) -> float:
    """√ mean of squares over all metrics and cells."""
    squares = [value**2 for cell in missed for value in cell.values()]
    return math.sqrt(math.fsum(squares) / len(squares))


def as_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
