"""Derived from a stored sweep: estimates, which methods are best, tests between them, and the paper's numbers."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import pandas as pd

from permlab.platform.report.recipe import comparable
from permlab.platform.report.results import Estimate, paper_numbers
from permlab.platform.report.statistics import (
    ALPHA,
    LEAST_SEEDS,
    PairedTest,
    Ranking,
    detectable,
    friedman,
    holm,
    mean_ranks,
    paired_test,
    prediction_half_width,
)
from permlab.platform.report.stored import StoredSweep
from permlab.tasks.metrics import higher_is_better

Place = tuple[str, int, str, str]  # dataset, d, split, metric: where methods are compared
PLACE = ["dataset", "d", "split", "metric"]
SAME = 1e-3  # a metric that permuted nodes change by no more than this share is the same, to the digits shown


@dataclass(frozen=True)
class Comparison:
    """Two methods at one place, first − second.

    `p_holm` is corrected over all pairs of methods at all d of the same data set, split and metric: the report counts
    them in one sentence, so they are one family.
    """

    first: str
    second: str
    test: PairedTest
    p_holm: float

    @property
    def significant(self) -> bool:
        return self.p_holm < ALPHA


@dataclass(frozen=True)
class Detectable:
    """The difference between two methods that would be found in 80 % of all repetitions."""

    alone: float  # by a test of one pair
    first: float  # by the first step of Holm's correction, the strictest
    pairs: int  # in the family


@dataclass(frozen=True)
class Number:
    """One number of the tables: our estimate, the paper's, and how they compare."""

    estimate: Estimate
    prediction: float | None  # half the width of the interval for one more run
    paper: float | None
    best: bool
    tied: bool  # among the best: it takes part, and does not differ significantly from the best

    @property
    def inside(self) -> bool | None:
        """Whether the paper's number, a single run, lies in the 95 % interval for one more run of ours."""
        if self.paper is None or self.prediction is None:
            return None
        return bool(abs(self.paper - self.estimate.mean) <= self.prediction + 0.0005)  # the paper's numbers are rounded


@dataclass(frozen=True)
class Ranks:
    """Mean ranks of the methods. With `test`, over data sets; without, over d and seeds, as a description only.

    `left_out`: methods that lack seeds at some (data set, d).
    """

    methods: list[str]
    mean_ranks: list[float]
    datasets: int
    test: Ranking | None
    left_out: list[str]


class Findings:
    def __init__(self, sweep: StoredSweep) -> None:
        self.sweep = sweep

    @cached_property
    def by_place(self) -> dict[Place, pd.DataFrame]:
        """Tables seed × method, or fold × method with the mean over each fold's runs; methods in order."""
        order = self.sweep.methods
        tables = {}
        for place, part in self.sweep.values.groupby(PLACE, sort=False):
            table = part.pivot_table("value", "block", "method")
            tables[place] = table[[method for method in order if method in table]]
        return tables

    @cached_property
    def _split_seeds(self) -> dict[str, set[str]]:
        return {name: set(self.sweep.settings(name).get("data.split_seed", {"None"})) for name in self.sweep.datasets}

    def one_split(self, dataset: str) -> bool:
        """Whether all seeds hold out the same graphs: they differ only in weights and order. With `data.split_seed`
        every seed cuts its own validation part.
        """
        drawn = self._split_seeds[dataset] | set(self.sweep.settings(dataset).get("data.splits", {"None"}))
        one = drawn != {"None"} and self.sweep.unit(dataset) == "seeds"
        return one and "holdout" in self.sweep.splits(dataset)

    def test_share(self, dataset: str) -> float | None:
        """n_test / n_train that corrects the test: 0 if all seeds share one split. None if no test applies: the sizes
        of random splits are not stored, or methods have different fixed splits.
        """
        if self.one_split(dataset):
            return 0.0 if len(self._split_seeds[dataset]) == 1 else None
        part = "holdout" if "holdout" in self.sweep.splits(dataset) else "validation"
        tested, trained = (self.sweep.sizes(dataset, name) for name in (part, "train"))
        return float(np.mean(tested) / np.mean(trained)) if tested and trained else None

    @cached_property
    def comparisons(self) -> dict[Place, list[Comparison]]:
        """All pairs of methods with enough seeds or folds in common.

        Training rows are not tested: the correction is for held-out graphs.
        """
        families: dict[tuple[str, str, str], list[tuple[Place, str, str, PairedTest]]] = defaultdict(list)
        shares = {dataset: self.test_share(dataset) for dataset in self.sweep.datasets}
        for place, table in self.by_place.items():
            dataset, _, split, metric = place
            share = shares[dataset]
            if split == "train" or share is None:
                continue
            scores = {method: table[method].to_numpy() for method in table.columns}
            for a, b in combinations(scores, 2):
                both = ~np.isnan(scores[a] + scores[b])
                test = paired_test(scores[a][both], scores[b][both], share)
                families[dataset, split, metric] += [(place, a, b, test)] if test else []
        comparisons: dict[Place, list[Comparison]] = defaultdict(list)
        for family in families.values():
            corrected = holm([test.p for *_, test in family])
            for (place, a, b, test), p in zip(family, corrected, strict=True):
                comparisons[place].append(Comparison(a, b, test, p))
        return dict(comparisons)

    def compare(self, place: Place, first: str, second: str) -> Comparison | None:
        for comparison in self.comparisons.get(place, []):
            if {comparison.first, comparison.second} == {first, second}:
                return comparison
        return None

    @cached_property
    def numbers(self) -> dict[tuple[Place, str], Number]:
        """By place and method."""
        same = {dataset: comparable(self.sweep.settings(dataset), dataset) for dataset in self.sweep.datasets}
        paper = {kind: value for kind, value in paper_numbers().items() if same.get(kind[0])}
        numbers = {}
        one_split = {dataset: self.one_split(dataset) for dataset in self.sweep.datasets}
        for place, table in self.by_place.items():
            dataset, d, split, metric = place
            best, tied = self._best(place, table)
            for method in table.columns:
                values = table[method].dropna().tolist()
                numbers[place, method] = Number(
                    Estimate.of(values),
                    None if one_split[dataset] else prediction_half_width(values),  # the paper has another split
                    paper.get((dataset, d, method, split, metric)),
                    method == best,
                    method in tied,
                )
        return numbers

    def _best(self, place: Place, table: pd.DataFrame) -> tuple[str | None, list[str]]:
        """The best mean among the methods with enough seeds or folds, and those that do not differ significantly from
        it. None if nothing was tested.
        """
        rivals = [method for method in table.columns if table[method].count() >= LEAST_SEEDS]
        if not self.comparisons.get(place):
            return None, []
        means = table[rivals].mean()
        best = str(means.idxmax() if higher_is_better(place[3]) else means.idxmin())
        against = {method: self.compare(place, best, method) for method in rivals if method != best}
        return best, [method for method, test in against.items() if test is None or not test.significant]

    def ranks(self, split: str) -> Ranks | None:
        """By the headline metric, over the (d, seed or fold) in which every ranked method was measured."""
        tables = [
            (dataset, table if higher_is_better(metric) else -table)
            for (dataset, _, part, metric), table in self.by_place.items()
            if part == split and metric == self.sweep.headline(dataset)
        ]
        enough = [_with_enough_seeds(table) for _, table in tables]
        methods = [method for method in self.sweep.methods if tables and all(method in names for names in enough)]
        scores: dict[str, list[np.ndarray]] = defaultdict(list)
        for dataset, table in tables:
            scores[dataset].append(table[methods].dropna().to_numpy())
        blocks = [np.concatenate(tables) for tables in scores.values()]
        by_dataset = [mean_ranks(block, higher_is_better=True) for block in blocks if len(block)]
        if not by_dataset or len(methods) < 3:
            return None
        test = friedman(np.array(by_dataset), higher_is_better=False)
        means = test.mean_ranks if test else np.mean(by_dataset, axis=0).tolist()
        left_out = [method for method in self.sweep.methods if method not in methods]
        return Ranks(methods, means, len(by_dataset), test, left_out)

    def detectable(self, place: Place, pair: tuple[str, str] | None = None) -> Detectable | None:
        """Between these two methods, else between all at this place: the median. None if none was tested, or varies."""
        dataset, _, split, metric = place
        chosen = [self.compare(place, *pair)] if pair else self.comparisons.get(place, [])
        tests = [comparison.test for comparison in chosen if comparison and comparison.test.error]
        if not tests:
            return None
        pairs = sum(len(self.comparisons.get((dataset, d, split, metric), [])) for d in self.sweep.widths(dataset))
        alone, first = (
            float(np.median([detectable(test.error, test.seeds, alpha) for test in tests]))
            for alpha in (ALPHA, ALPHA / pairs)
        )
        return Detectable(alone, first, pairs)

    @cached_property
    def changes(self) -> dict[str, dict[str, float]]:
        """By data set and method: the largest change of a metric by permuted nodes in a cell, as a share of it."""
        changes = {}
        for dataset, part in self.sweep.values.groupby("dataset"):
            table = part.pivot_table("value", ["method", "d", "seed", "metric"], "split")
            if {"holdout", "holdout_perm"} <= set(table):
                share = (table["holdout_perm"] - table["holdout"]).abs() / table["holdout"].abs().clip(lower=1e-12)
                largest = share.dropna().groupby("method").max()
                changes[str(dataset)] = {name: float(largest[name]) for name in self.sweep.methods if name in largest}
        return changes

    def unchanged(self, dataset: str) -> list[str]:
        """The methods with the same metrics on the permuted holdout, in every cell."""
        return [method for method, change in self.changes.get(dataset, {}).items() if change <= SAME]

    def splits(self, dataset: str) -> list[str]:
        """The splits that are shown: not a permuted holdout that repeats the holdout for every method."""
        repeats = dataset in self.changes and self.unchanged(dataset) == list(self.changes[dataset])
        return [split for split in self.sweep.splits(dataset) if not (repeats and split == "holdout_perm")]

    @property
    def testable(self) -> bool:
        return any(self.comparisons.values())

    def why_no_test(self) -> str:
        """The reason in words, if there is no test."""
        if self.testable:
            return ""
        if any(len(seeds) > 1 for seeds in self._split_seeds.values()):
            return "No test is possible: methods were measured on different fixed splits (data.split_seed)."
        if all(self.test_share(dataset) is None for dataset in self.sweep.datasets) and len(self.sweep.finished):
            return "No test is possible: the sizes of the splits are not stored with these runs."
        return f"No test is possible: no two methods have {LEAST_SEEDS} or more finished {self.sweep.units} in common."


def _with_enough_seeds(table: pd.DataFrame) -> set[str]:
    """Of seed × method: the methods with as many seeds as a test needs, or as the others have."""
    counts = table.count()
    return set(counts.index[counts >= min(LEAST_SEEDS, counts.max())])
