"""`permlab bench level`: false alarms of the report's tests on simulated data sets."""

import json
from pathlib import Path

import numpy as np
import pytest

from permlab.platform.bench.level_data import one_split, random_splits

SMALL = ("data_sets=60", "methods=3", "seeds=10", "d=[1,4]", "blocks=3")


def rates(result: dict) -> dict[str, float]:
    rows = result["tests"] + result["friedman"]
    return {row["test"]: row["rates"]["3"] for row in rows} | {row["test"]: row["rate"] for row in result["intervals"]}


def test_the_reports_tests_hold_their_level_and_those_it_avoids_do_not(permlab, tmp_path: Path) -> None:
    code, out, err = permlab("bench", "level", *SMALL, f"runs={tmp_path}")
    result = json.loads((tmp_path / "bench" / "level.json").read_text())
    assert (code, err) == (0, "") and "60 simulated data sets of 1,113 graphs" in out
    for rows in (result["tests"], result["friedman"], result["intervals"]):
        for row in rows:
            rate = row["rate"] if "rate" in row else row["rates"]["3"]
            assert (rate < 0.15) == row["in_report"], row["test"]


def test_equal_seeds_give_equal_rates(permlab, tmp_path: Path) -> None:
    words = ("data_sets=8", *SMALL[1:], f"runs={tmp_path}")
    results = [json.loads(permlab("bench", "level", *words, f"seed={seed}", "--json")[1]) for seed in (1, 1, 2)]
    assert rates(results[0]) == rates(results[1]) != rates(results[2])


def test_simulated_methods_are_equal_and_wider_ones_better() -> None:
    rng = np.random.default_rng(0)
    scores = np.array([random_splits(rng, 4, 2, [1, 10]) for _ in range(60)])
    by_method = scores.mean(axis=(0, 1, 2))
    assert np.ptp(by_method) < 0.01 and 0.6 < scores[:, 0].mean() < scores[:, 1].mean() - 0.05 < 0.9


def test_seeds_of_one_data_set_depend_on_one_another() -> None:
    """A method that leads on one split of these graphs tends to lead on the next, although no method is better."""
    rng = np.random.default_rng(0)
    gains = np.array([np.diff(random_splits(rng, 2, 2, [4])[0], axis=1)[:, 0] for _ in range(200)])
    assert np.corrcoef(gains.T)[0, 1] > 0.1


def test_on_one_split_methods_that_see_the_same_differ_by_luck_alone() -> None:
    rng = np.random.default_rng(0)
    same, own = (np.array([one_split(rng, 2, 8, 4, same=flag) for _ in range(30)]) for flag in (True, False))
    same_gap, own_gap = (np.abs(np.diff(scores.mean(axis=1))).mean() for scores in (same, own))
    assert same_gap < own_gap / 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["methods=2"], "greater than or equal to 3"),
        (["seeds=2"], "greater than or equal to 3"),
        (["data_sets=4", "blocks=[3,5]"], "only 4 data sets are simulated; raise data_sets"),
        (["repeats=3"], "unknown setting repeats"),
    ],
)
def test_a_wrong_call_is_one_line(permlab, words: list[str], says: str) -> None:
    code, out, err = permlab("bench", "level", *words)
    assert (code, out) == (2, "") and says in err and err.count("\n") == 1
