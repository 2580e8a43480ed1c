"""How long the rest of a sweep takes."""

import time
from typing import Any

import pytest

from permlab.platform.settings.run import RunSettings
from permlab.platform.sweep.estimate import TimeLeft
from permlab.platform.sweep.plan import OVERHEAD, Cell


def cells(took: dict[str, float], seeds: int, expected: float = 10.0) -> tuple[list[Cell], dict[str, float]]:
    """`seeds` cells per method, which the plan expects to take equally long; and how long they really take."""
    plan = [
        Cell(RunSettings(dataset="synthetic", method=method, d=1, seed=seed), f"{method}{seed}", expected)
        for method in took
        for seed in range(seeds)
    ]
    return plan, {cell.key: took[cell.settings.method] for cell in plan}


def finish(cell: Cell, seconds: float) -> None:
    result: dict[str, Any] = {"seconds": seconds - OVERHEAD}
    cell.result = result


def test_there_is_no_estimate_before_the_first_cell_is_done() -> None:
    plan, _ = cells({"sum": 5.0}, 4)
    assert TimeLeft(plan, 2).seconds({}) is None


@pytest.mark.parametrize("room", [1, 2, 8])
@pytest.mark.parametrize("took", [{"ordering": 3.0}, {"ordering": 300.0, "sum": 200.0}, {"sort": 2.0, "sum": 1.1}])
def test_it_is_right_within_a_factor_of_two_from_the_second_cell_on(took: dict[str, float], room: int) -> None:
    plan, really = cells(took, 20)
    for done, cell in enumerate(plan, start=1):
        finish(cell, really[cell.key])
        rest = sum(really[other.key] for other in plan[done:]) / room
        if 2 <= done <= len(plan) - room:
            assert rest / 2 < TimeLeft(plan, room).seconds({}) < 2 * rest


def test_time_already_spent_and_failed_cells_do_not_count() -> None:
    plan, _ = cells({"sum": 100.0}, 4)
    finish(plan[0], 100.0)
    started = {plan[1].key: time.monotonic() - 50}
    assert TimeLeft(plan, 1).seconds(started) == pytest.approx(250, rel=0.01)
    assert TimeLeft(plan, 1).seconds(started, {plan[2].key}) == pytest.approx(150, rel=0.01)


def test_the_longest_cell_bounds_it_from_below() -> None:
    plan, _ = cells({"sum": 100.0}, 3)
    finish(plan[0], 100.0)
    assert TimeLeft(plan, 8).seconds({}) == pytest.approx(100, rel=0.01)
