"""What follows from a stored sweep: estimates, which methods are best, tests between them, and the paper's numbers."""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import pandas as pd

from permlab.platform.report.statistics import (
    ALPHA,
    LEAST_SEEDS,
    PairedTest,
    Ranking,
    friedman,
    holm,
    paired_test,
    prediction_half_width,
)
from permlab.platform.report.stored import HIGHER_IS_BETTER, StoredSweep
from permlab.platform.results import Estimate, paper_numbers

Place = tuple[str, int, str, str]  # dataset, d, split, metric: where methods are compared
PLACE = ["dataset", "d", "split", "metric"]


@dataclass(frozen=True)
class Comparison:
    """Two methods at one place, first − second; `p_holm` is corrected over the pairs of methods there."""

    first: str
    second: str
    test: PairedTest
    p_holm: float


@dataclass(frozen=True)
class Number:
    """One number of the tables: our estimate, the paper's, and how they lie."""

    estimate: Estimate
    prediction: float | None  # half the width of the interval for one more run
    paper: float | None
    best: bool
    tied: bool  # with the best: the corrected test does not tell them apart

    @property
    def inside(self) -> bool | None:
        """Whether the paper's number lies in the 95 % interval of our mean."""
        return self._within(self.estimate.half_width)

    @property
    def plausible(self) -> bool | None:
        """Whether it lies where one more run of ours would, 95 times of 100: the paper's is a single run."""
        return self._within(self.prediction)

    def _within(self, half_width: float | None) -> bool | None:
        if self.paper is None or half_width is None:
            return None
        return bool(abs(self.paper - self.estimate.mean) <= half_width + 0.0005)  # the paper's are rounded


class Findings:
    def __init__(self, sweep: StoredSweep) -> None:
        self.sweep = sweep

    @cached_property
    def by_place(self) -> dict[Place, pd.DataFrame]:
        """Tables seed × method, methods in order."""
        order = self.sweep.methods
        found = {}
        for place, part in self.sweep.values.groupby(PLACE, sort=False):
            table = part.pivot_table("value", "seed", "method")
            found[place] = table[[method for method in order if method in table]]
        return found

    def test_share(self, dataset: str) -> float | None:
        """n_test / n_train of a data set's split, if it is stored."""
        part = self.sweep.finished
        part = part[part["dataset"] == dataset]
        if "graphs/train" not in part or part["graphs/train"].isna().all():
            return None
        row = part.dropna(subset="graphs/train").iloc[0]
        tested = row["graphs/holdout"] if "holdout" in self.sweep.splits(dataset) else row["graphs/validation"]
        return float(tested / row["graphs/train"])

    @cached_property
    def comparisons(self) -> dict[Place, list[Comparison]]:
        """All pairs of methods with enough seeds in common; none where no test is possible."""
        shares = {dataset: self.test_share(dataset) for dataset in self.sweep.datasets}
        found = {}
        for place, table in self.by_place.items():
            share, tests = shares[place[0]], []
            for a, b in combinations(table.columns, 2):
                both = table[[a, b]].dropna()
                test = paired_test(both[a], both[b], share) if share is not None else None
                if test:
                    tests.append((a, b, test))
            corrected = holm([test.p for _, _, test in tests])
            found[place] = [Comparison(*pair, p) for pair, p in zip(tests, corrected, strict=True)]
        return found

    def compare(self, place: Place, first: str, second: str) -> Comparison | None:
        for found in self.comparisons.get(place, []):
            if {found.first, found.second} == {first, second}:
                return found
        return None

    @cached_property
    def numbers(self) -> dict[tuple[Place, str], Number]:
        """By place and method."""
        paper, found = paper_numbers(), {}
        for place, table in self.by_place.items():
            dataset, d, split, metric = place
            means = table.mean()
            best = str(means.idxmax() if metric in HIGHER_IS_BETTER else means.idxmin())
            for method in table.columns:
                values = table[method].dropna().tolist()
                against = self.compare(place, best, method)
                found[place, method] = Number(
                    Estimate.of(values),
                    prediction_half_width(values),
                    paper.get((dataset, d, method, split, metric)),
                    method == best,
                    against is not None and against.p_holm >= ALPHA,
                )
        return found

    def ranking(self, split: str) -> tuple[list[str], Ranking] | None:
        """Friedman over the blocks (dataset, d, seed) in which every method was measured, by the headline metric."""
        tables = []
        for (dataset, _, part, metric), table in self.by_place.items():
            if part == split and metric == self.sweep.headline(dataset):
                table = table.reindex(columns=self.sweep.methods).dropna()
                tables.append(table if metric in HIGHER_IS_BETTER else -table)
        scores = np.concatenate([table.to_numpy() for table in tables]) if tables else np.zeros((0, 0))
        result = friedman(scores, higher_is_better=True) if scores.size else None
        return (self.sweep.methods, result) if result else None

    @property
    def testable(self) -> bool:
        return any(self.comparisons.values())

    def why_no_test(self) -> str:
        """In words, if there is none."""
        if self.testable:
            return ""
        if all(self.test_share(dataset) is None for dataset in self.sweep.datasets) and len(self.sweep.finished):
            return "No test is possible: the sizes of the splits are not stored with these runs."
        return f"No test is possible: no two methods have {LEAST_SEEDS} or more finished seeds in common."
