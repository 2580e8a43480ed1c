import math
from statistics import pstdev

import pytest

from permlab.platform.errors import ConfigError
from permlab.platform.report.results import paper_numbers
from permlab.platform.reproduce.distance import DIVERGED, check_cell, distance, misses, spreads

CELLS = [("proteins_full", method, d) for method in ("ordering", "sum") for d in (1, 10)]


def paper(dataset: str, method: str, d: int, split: str) -> dict[str, float]:
    return {kind[4]: value for kind, value in paper_numbers().items() if kind[:4] == (dataset, d, method, split)}


def test_the_paper_itself_is_at_distance_0() -> None:
    assert distance(misses(*cell, "train", paper(*cell, "train")) for cell in CELLS) == 0


def test_a_part_of_a_data_set_is_compared_with_the_whole() -> None:
    measured = {"mae": 0.3, "loss": 7.0}
    assert misses("qm9,limit=300", "sum", 10, "train", measured) == misses("qm9", "sum", 10, "train", measured)


def test_every_metric_counts_in_units_of_the_papers_own_spread() -> None:
    values = [v for k, v in paper_numbers().items() if k[0] == "proteins_full" and k[3:] == ("train", "auc")]
    assert len(values) == 28 and spreads("proteins_full", "train")["auc"] == pytest.approx(pstdev(values))
    cell, s = CELLS[0], spreads("proteins_full", "train")
    moved = {metric: value + 2 * s[metric] for metric, value in paper(*cell, "train").items()}
    assert misses(*cell, "train", moved) == pytest.approx(dict.fromkeys(("acc", "auc", "ap"), 2.0))
    assert distance([misses(*cell, "train", moved)]) == pytest.approx(2.0)
    half = moved | {"acc": paper(*cell, "train")["acc"]}
    assert distance([misses(*cell, "train", half)]) == pytest.approx(2 * math.sqrt(2 / 3))


@pytest.mark.parametrize("measured", [None, {"mae": None}, {"mae": math.nan}])
def test_a_run_that_diverged_is_far_away(measured: dict | None) -> None:
    assert misses("qm9", "sum", 10, "train", measured) == {"mae": DIVERGED}


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        (("tu:MUTAG", "sum", 10), "no numbers for tu:MUTAG; choose from proteins_full, qm9"),
        (("qm9", "mean", 10), "no method mean; choose from ordering"),
        (("qm9", "sum", 11), "no numbers for d=11; choose from 1, 10, 50, 100"),
    ],
)
def test_what_the_paper_does_not_have(cell: tuple[str, str, int], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check_cell(*cell)
