"""How long the rest of a sweep takes."""

import time
from typing import Any

import pytest

from permlab.platform.settings.run import RunSettings
from permlab.platform.sweep.estimate import TimeLeft
from permlab.platform.sweep.plan import OVERHEAD, Cell


def cells(took: dict[str, float], seeds: int, expected: float = 10.0) -> tuple[list[Cell], dict[str, float]]:
    """Of every method `seeds` cells, which the plan expects to take equally long; and how long they really take."""
    made = [
        Cell(RunSettings(dataset="synthetic", method=method, d=1, seed=seed), f"{method}{seed}", expected)
        for method in took
        for seed in range(seeds)
    ]
    return made, {cell.key: took[cell.settings.method] for cell in made}


def finish(cell: Cell, seconds: float) -> None:
    result: dict[str, Any] = {"seconds": seconds - OVERHEAD}
    cell.result = result


def test_nothing_is_told_before_the_first_cell_is_done() -> None:
    made, _ = cells({"sum": 5.0}, 4)
    assert TimeLeft(made, 2).seconds({}) is None


@pytest.mark.parametrize("room", [1, 2, 8])
@pytest.mark.parametrize("took", [{"ordering": 3.0}, {"ordering": 300.0, "sum": 200.0}, {"sort": 2.0, "sum": 1.1}])
def test_it_is_right_within_a_factor_of_two_from_the_second_cell_on(took: dict[str, float], room: int) -> None:
    made, really = cells(took, 20)
    for done, cell in enumerate(made, start=1):
        finish(cell, really[cell.key])
        rest = sum(really[other.key] for other in made[done:]) / room
        if 2 <= done <= len(made) - room:
            assert rest / 2 < TimeLeft(made, room).seconds({}) < 2 * rest


def test_what_running_cells_have_done_and_those_that_failed_do_not_count() -> None:
    made, _ = cells({"sum": 100.0}, 4)
    finish(made[0], 100.0)
    started = {made[1].key: time.monotonic() - 50}
    assert TimeLeft(made, 1).seconds(started) == pytest.approx(250, rel=0.01)
    assert TimeLeft(made, 1).seconds(started, {made[2].key}) == pytest.approx(150, rel=0.01)


def test_the_longest_cell_bounds_it_from_below() -> None:
    made, _ = cells({"sum": 100.0}, 3)
    finish(made[0], 100.0)
    assert TimeLeft(made, 8).seconds({}) == pytest.approx(100, rel=0.01)
