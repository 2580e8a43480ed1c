from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from permlab.platform.sweep.proofs import in_this_process, kept


@dataclass(frozen=True)
class Square:
    number: int
    unit: str = "m"

    @property
    def name(self) -> str:
        return f"square-{self.number}"

    @property
    def identity(self) -> dict[str, Any]:
        return {"number": self.number, "unit": self.unit}


ran: list[int] = []


def squared(job: Square) -> dict[str, Any]:
    ran.append(job.number)
    return {"final": job.number != 3, "square": job.number**2}


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


def squares(folder: Path, jobs: list[Square]) -> list[int]:
    return sorted(result["square"] for result in kept(folder, squared, jobs, in_this_process))


def test_what_is_stored_is_not_run_again(tmp_path: Path) -> None:
    assert squares(tmp_path, [Square(1), Square(2)]) == [1, 4]
    assert squares(tmp_path, [Square(1), Square(2), Square(4)]) == [1, 4, 16]
    assert ran == [1, 2, 4]


def test_what_is_not_final_is_not_stored(tmp_path: Path) -> None:
    assert squares(tmp_path, [Square(3)]) == squares(tmp_path, [Square(3)]) == [9]
    assert ran == [3, 3]


def test_a_stored_result_counts_for_the_same_job_only(tmp_path: Path) -> None:
    squares(tmp_path, [Square(1)])
    squares(tmp_path, [Square(1, unit="km")])
    (tmp_path / "square-1.json").write_text("damaged")
    squares(tmp_path, [Square(1, unit="km")])
    assert ran == [1, 1, 1]


def test_a_caller_that_has_seen_enough_stops_the_rest(tmp_path: Path) -> None:
    for result in kept(tmp_path, squared, [Square(1), Square(2), Square(4)], in_this_process):
        if result["square"] == 4:
            break
    assert ran == [1, 2]


@pytest.mark.ray
def test_jobs_run_on_ray_and_those_of_a_caller_that_stops_are_ended(one_ray: None, tmp_path: Path) -> None:
    from permlab.platform.sweep.ray_map import mapping
    from permlab.readouts.theory.least import least_columns, run_piece

    with mapping(None) as runner:
        least = least_columns(4, 3, 0, False, lambda pieces: kept(tmp_path, run_piece, pieces, runner))
    assert (least.least.D, least.least.universal, least.below.D) == (7, True, 6)
    again = least_columns(4, 3, 0, False, lambda pieces: kept(tmp_path, run_piece, pieces, in_this_process))
    assert again == least
