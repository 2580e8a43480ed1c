from pathlib import Path

import pytest

from permlab.platform.errors import ConfigError
from permlab.platform.reproduce.collect import collect_cells, collect_facts, oscillation_of
from permlab.platform.run.stored_result import read_finished
from tests.platform.driving import drive

GRID = ("method=[sum,identity]", "seed=[0,1]", "train.epochs=4", "train.eval_every=1", "name=whole")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    drive(tmp_path, *GRID)
    drive(tmp_path, *GRID, "name=half", "d=3", status=None, most=1)
    return tmp_path


def test_every_cell_has_what_it_measured_and_cost(runs: Path) -> None:
    cells = collect_cells(runs, {"default": ["whole", "half"]})
    whole = cells[cells["d"] == 2]
    assert list(zip(whole["method"], whole["seed"], strict=True)) == [
        ("identity", 0), ("identity", 1), ("sum", 0), ("sum", 1),
    ]  # fmt: skip
    assert (whole["epoch"] == 4).all() and (whole["engine"] == "plain").all() and (whole["threads"] == 1).all()
    results = [read_finished(folder) for folder in runs.glob("cells/*")]
    assert sorted(cells["seconds"].dropna()) == sorted(result["seconds"] for result in results if result)
    stored = {(r["method"], r["d"], r["seed"]): r["metrics"]["holdout"]["auc"] for r in results if r}
    found = cells[cells["status"] == "FINISHED"].set_index(["method", "d", "seed"])["holdout/auc"].to_dict()
    assert found == stored
    left = cells[(cells["d"] == 3) & (cells["status"] != "FINISHED")]
    assert len(left) == 3 and set(left["epoch"]) == {0} and set(left["epochs"]) == {4}


def test_a_cell_of_two_sweeps_counts_once(runs: Path) -> None:
    drive(runs, *GRID, "name=again", "seed=[1,2]")
    cells = collect_cells(runs, {"default": ["whole", "again"], "fitted": ["again"]})
    assert (cells["recipe"] == "default").sum() == 6 and (cells["recipe"] == "fitted").sum() == 4


def test_cells_of_different_settings_are_not_mixed(runs: Path) -> None:
    drive(runs, *GRID, "name=longer", "train.epochs=5")
    with pytest.raises(ConfigError, match="default: .*, identity, d = 2, seed 0 stands twice"):
        collect_cells(runs, {"default": ["whole", "longer"]})


def test_starts_and_wall_clock(runs: Path) -> None:
    drive(runs, *GRID, "name=half", "d=3")  # it resumes
    drive(runs, *GRID, "name=half", "d=3")  # there is nothing left
    whole, half = collect_facts(runs, {"default": ["whole", "half"]}, [])["sweeps"]
    assert (whole["starts"], half["starts"]) == (1, 2) and min(half["wall_clock"], whole["wall_clock"]) > 0
    assert half["surroundings"][0].startswith("command: permlab sweep ") and "name=half" in half["surroundings"][0]


def test_what_does_not_exist_is_one_line(runs: Path) -> None:
    with pytest.raises(ConfigError, match="no sweep 'other' in .*; choose from: half, whole"):
        collect_cells(runs, {"default": ["other"]})
    with pytest.raises(ConfigError, match="no finished search 'fit'"):
        collect_facts(runs, {}, ["fit"])


def test_oscillation_is_the_size_of_the_changes_in_the_second_half() -> None:
    values = [0.1, 0.9, 0.2, 0.5, 0.6, 0.5, 0.6, 0.5]
    entries = [{"epoch": i, "holdout_perm/auc": value, "train/auc": 0.0} for i, value in enumerate(values)]
    assert oscillation_of(entries) == pytest.approx(0.1) and oscillation_of([]) is None
