"""How often the report's tests raise false alarms, on simulated data sets where all methods are equal.

Also measured, to show why the report avoids them: Friedman's test over seeds × d of one data set, the t-test without
its correction, a test on one split read as a claim about all splits, and judging the paper's single run by the interval
of our mean. A test that holds its level raises a false alarm on at most 5 % of the data sets.
"""

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from permlab.platform.bench.level_data import GRAPHS, HOLDOUT, one_split, random_splits
from permlab.platform.bench.machine import facts
from permlab.platform.bench.settings import LevelBench
from permlab.platform.bench.tables import new_table, print_table
from permlab.platform.display.console import out, progress_bar
from permlab.platform.report.results import Estimate
from permlab.platform.report.statistics import ALPHA, friedman, holm, paired_test, prediction_half_width

SHARE = HOLDOUT / (GRAPHS - HOLDOUT)
RANDOM, OWN, SAME = "random splits", "one split", "one split, methods equal on it"  # how scores are simulated
Scores = np.ndarray  # of one data set: [d, seed, method]

# Name: (which simulated scores it sees, whether it raises an alarm on them, whether the report uses it).
TESTS: dict[str, tuple[str, Callable[[Scores], bool], bool]] = {
    "random splits: corrected t, Holm over pairs and d": (RANDOM, lambda scores: pairs_differ(scores, SHARE), True),
    "random splits: the same without the correction": (RANDOM, lambda scores: pairs_differ(scores, 0.0), False),
    "random splits: Friedman over seeds × d": (RANDOM, lambda scores: ranks_differ(np.concatenate(scores)), False),
    "one split: paired t, Holm, about this split": (SAME, lambda scores: pairs_differ(scores, 0.0), True),
    "one split: the same, read as about all splits": (OWN, lambda scores: pairs_differ(scores, 0.0), False),
}
INTERVALS: dict[str, tuple[Callable[[list[float]], float | None], bool]] = {
    "the paper's run outside our interval for one more run": (prediction_half_width, True),
    "the paper's run outside our interval of the mean": (lambda values: Estimate.of(values).half_width, False),
}


def measure(bench: LevelBench) -> dict[str, Any]:
    rng = np.random.default_rng(bench.seed)
    methods, seeds, d = max(bench.methods), max(bench.seeds), max(bench.d)
    drawn: dict[str, list[Scores]] = {RANDOM: [], OWN: [], SAME: []}
    with progress_bar("bench level", "data sets") as report:
        for done in range(bench.data_sets):
            report(done, bench.data_sets)
            drawn[RANDOM].append(random_splits(rng, methods, seeds + 1, bench.d))  # the extra seed is the paper's run
            drawn[OWN].append(one_split(rng, methods, seeds, d, same=False)[None])
            drawn[SAME].append(one_split(rng, methods, seeds, d, same=True)[None])
    scores = {way: np.array(data_sets) for way, data_sets in drawn.items()}
    document = {"bench": "level", "machine": facts(), "settings": bench.model_dump()}
    return document | {
        "tests": _within_a_data_set(bench, scores),
        "friedman": _over_data_sets(bench, scores[RANDOM], rng),
        "intervals": _intervals(bench, scores[RANDOM]),
    }


def _within_a_data_set(bench: LevelBench, scores: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    rows = []
    for (test, (way, alarm, ours)), n in product(TESTS.items(), bench.seeds):
        rates = {str(k): _rate(alarm(data_set[:, :n, :k]) for data_set in scores[way]) for k in bench.methods}
        rows.append({"test": test, "in_report": ours, "seeds": n, "rates": rates})
    return rows


def _over_data_sets(bench: LevelBench, scores: np.ndarray, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Random groups of data sets, as many as data sets; a method's score on a data set is its mean over d and seeds."""
    rows = []
    means = scores[:, :, :-1].mean(axis=(1, 2))
    for blocks in bench.blocks:
        groups = [rng.choice(len(means), blocks, replace=False) for _ in means]
        rates = {str(k): _rate(ranks_differ(means[group, :k]) for group in groups) for k in bench.methods}
        rows.append({"test": "Friedman over data sets", "in_report": True, "blocks": blocks, "rates": rates})
    return rows


def _intervals(bench: LevelBench, scores: np.ndarray) -> list[dict[str, Any]]:
    """The paper's number is one more run of the same method: a perfect reproduction."""
    rows = []
    runs = [seeds.tolist() for data_set in scores[:, -1] for seeds in data_set.T]  # at the last d, one list per method
    for (test, (half_width, ours)), n in product(INTERVALS.items(), bench.seeds):
        rate = _rate(abs(run[n] - np.mean(run[:n])) > (half_width(run[:n]) or 0.0) for run in runs)
        rows.append({"test": test, "in_report": ours, "seeds": n, "rate": rate})
    return rows


def _rate(alarms: Any) -> float:
    return float(np.mean(list(alarms)))


def pairs_differ(scores: Scores, share: float) -> bool:
    """Whether any two methods differ significantly at any d, after Holm's correction over all of them."""
    pairs = combinations(range(scores.shape[2]), 2)
    tests = [paired_test(table[:, a], table[:, b], share) for (a, b), table in product(pairs, scores)]
    return min(holm([test.p for test in tests if test])) < ALPHA


def ranks_differ(scores: np.ndarray) -> bool:
    """Friedman's test; scores [block, method]."""
    ranking = friedman(scores, higher_is_better=True)
    return ranking is not None and ranking.p < ALPHA


def show(result: dict[str, Any]) -> None:
    settings = result["settings"]
    rows = result["tests"] + result["friedman"]
    table = new_table(("in the report", "test", "over"), [f"{k} methods" for k in settings["methods"]])
    for row in rows:
        table.add_row(*_facts(row), *(f"{rate:.1%}" for rate in row["rates"].values()))
    print_table(table)
    out.print()
    table = new_table(("in the report", "a perfect reproduction", "over"), ["judged different"])
    for row in result["intervals"]:
        table.add_row(*_facts(row), f"{row['rate']:.1%}")
    print_table(table)
    error = 200 * (ALPHA * (1 - ALPHA) / settings["data_sets"]) ** 0.5
    out.print(
        f"\nFalse alarms at a level of {ALPHA:.0%} on {settings['data_sets']:,} simulated data sets of {GRAPHS:,} "
        f"graphs, {HOLDOUT} of them held out, d = {_list(settings['d'])}; all methods are equal. "
        f"Chance moves a rate of {ALPHA:.0%} by up to {error:.1f} points.",
        markup=False,
    )


def _facts(row: dict[str, Any]) -> tuple[str, str, str]:
    over = f"{row['blocks']} data sets" if "blocks" in row else f"{row['seeds']} seeds"
    return "yes" if row["in_report"] else "no", row["test"], over


def _list(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
