import json
import math
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from permlab.platform.errors import ConfigError
from permlab.platform.files.json_files import read_json, write_json
from permlab.platform.reproduce.collect import collect, join_cells, oscillation_of
from permlab.platform.reproduce.page import add_data, read_data, write_page
from permlab.platform.run.stored_result import read_finished
from tests.platform.driving import drive

GRID = ("method=[sum,identity]", "seed=[0,1]", "train.epochs=4", "train.eval_every=1", "name=whole")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    drive(tmp_path, *GRID)
    drive(tmp_path, *GRID, "name=half", "d=3", status=None, most=1)
    return tmp_path


def cells_of(runs: Path, **sweeps: list[str]) -> pd.DataFrame:
    return collect(runs, sweeps, [])[0]


def test_every_cell_has_what_it_measured_and_cost(runs: Path) -> None:
    cells = cells_of(runs, default=["whole", "half"])
    whole = cells[cells["d"] == 2]
    assert list(zip(whole["method"], whole["seed"], strict=True)) == [
        ("identity", 0), ("identity", 1), ("sum", 0), ("sum", 1),
    ]  # fmt: skip
    assert (whole["epoch"] == 4).all() and (whole["engine"] == "plain").all() and (whole["threads"] == 1).all()
    results = [read_finished(folder) for folder in runs.glob("cells/*")]
    assert sorted(cells["seconds"].dropna()) == sorted(result["seconds"] for result in results if result)
    stored = {(r["method"], r["d"], r["seed"]): r["metrics"]["holdout"]["auc"] for r in results if r}
    finished = cells[cells["status"] == "FINISHED"].set_index(["method", "d", "seed"])
    assert finished["holdout/auc"].to_dict() == stored
    assert set(finished["version"]) == {7} and all(finished["digest"]) and all(finished["commit"])
    assert {"train.epochs": "4", "train.eval_every": "1"}.items() <= json.loads(finished["settings"].iloc[0]).items()
    assert (whole["sweep"] == "whole").all() and whole["oscillation"].notna().all()
    left = cells[(cells["d"] == 3) & (cells["status"] != "FINISHED")]
    assert (left["settings"] == "").all() and (left["version"] == 0).all()
    assert len(left) == 3 and set(left["epoch"]) == {0} and set(left["epochs"]) == {4}


def test_a_cell_of_two_sweeps_counts_once(runs: Path) -> None:
    drive(runs, *GRID, "name=again", "seed=[1,2]")
    cells = cells_of(runs, default=["whole", "again"], fitted=["again"])
    assert cells["again"].isna().all(), "it was run once"
    assert (cells["recipe"] == "default").sum() == 6 and (cells["recipe"] == "fitted").sum() == 4


def test_cells_of_different_settings_are_not_mixed(runs: Path) -> None:
    drive(runs, *GRID, "name=longer", "train.epochs=5")
    drive(runs, *GRID, "name=others", "train.epochs=5", "seed=[2,3]")
    for name in ("longer", "others"):
        with pytest.raises(ConfigError, match=rf"has train.epochs = .*5 \(sweep {name}\)"):
            cells_of(runs, default=["whole", name])
    assert len(cells_of(runs, default=["whole"], fitted=["longer"])) == 8


@pytest.mark.parametrize(("column", "value", "says"), [("version", 6, "result version"), ("digest", "f", "the data")])
def test_cells_of_other_versions_or_data_are_not_mixed(runs: Path, column: str, value: Any, says: str) -> None:
    cells = cells_of(runs, default=["whole"])
    cells.loc[cells["seed"] == 1, column] = value
    with pytest.raises(ConfigError, match=f"{says} = .*and {value} "):
        join_cells([cells])
    cells = cells_of(runs, default=["whole"]).assign(commit=["a", "b", "c", "d"])
    assert len(join_cells([cells])) == 4, "commits may differ"


def test_a_setting_that_this_version_does_not_know_is_not_the_default(runs: Path) -> None:
    cells = cells_of(runs, default=["whole"])
    cells.loc[cells["seed"] == 1, "settings"] = json.dumps(json.loads(cells["settings"][0]) | {"train.later": "1"})
    with pytest.raises(ConfigError, match="train.later = not set .* and 1 "):
        join_cells([cells])


def test_a_fitted_recipe_may_give_a_readout_its_own_options_and_is_not_the_default(runs: Path) -> None:
    drive(runs, *GRID, "name=own", "method=[kernels,sum]", "seed=0", "readout.kernels.kernels=3")
    assert len(cells_of(runs, fitted=["own"])) == 2
    with pytest.raises(ConfigError, match="own has readout=.*not the default one; name it with --fitted"):
        cells_of(runs, default=["own"])


def test_of_two_rows_the_finished_one_or_the_one_further_on_stays(runs: Path) -> None:
    ours = cells_of(runs, default=["half"])
    ours.loc[ours["status"] != "FINISHED", ["status", "epoch"]] = ["KILLED", 3]
    fresh = ours.assign(status="WAITING", epoch=0, sweep="other")
    assert join_cells([ours, fresh]).equals(join_cells([fresh, ours])) and "WAITING" not in set(ours["status"])


def test_a_cell_that_was_finished_twice_keeps_its_first_result_and_says_how_far_the_other_is(runs: Path) -> None:
    first = cells_of(runs, default=["whole"])
    other = first.assign(sweep="other", seconds=first["seconds"] + 1)
    other.loc[0, "holdout/auc"] += 0.25
    for again in (join_cells([first, other]), join_cells([join_cells([first, other]), other, first])):
        assert again["holdout/auc"].equals(first["holdout/auc"]) and set(again["sweep"]) == {"whole"}
        assert again["again"].tolist() == [pytest.approx(0.25), 0, 0, 0]


def test_starts_and_wall_clock(runs: Path) -> None:
    drive(runs, *GRID, "name=half", "d=3")  # it resumes
    facts = [collect(runs, {"default": ["whole", "half"]}, [])[1]["sweeps"]]
    drive(runs, *GRID, "name=half", "d=3")  # there is nothing left
    facts.append(collect(runs, {"default": ["whole", "half"]}, [])[1]["sweeps"])
    assert facts[0] == facts[1]
    whole, half = facts[0]
    assert (whole["starts"], half["starts"]) == (1, 2) and min(half["wall_clock"], whole["wall_clock"]) > 0
    assert (half["planned"], half["finished"], half["status"]) == (4, 4, "FINISHED")
    assert half["surroundings"][0].startswith("command: permlab sweep ") and "name=half" in half["surroundings"][0]


def test_the_wall_clock_is_the_sum_of_the_commands(runs: Path) -> None:
    """One was killed: it ended with the last epoch of a cell. Then one more seed is asked for."""
    path = runs / "sweeps/half/sweep.json"
    document = read_json(path) or {}
    (command,) = document["commands"]
    assert command["ended"] is None
    for history in runs.glob("cells/*/history.jsonl"):
        os.utime(history, (command["started"] + 50,) * 2)
    before = collect(runs, {"default": ["half"]}, [])[1]["sweeps"][0]
    assert before["wall_clock"] == pytest.approx(50, abs=0.1) and before["status"] == "KILLED"
    drive(runs, *GRID, "name=half", "d=3", "seed=[0,1,2]")
    first, second = (read_json(path) or {})["commands"]
    assert first["ended"] == pytest.approx(command["started"] + 50, abs=0.1)
    after = collect(runs, {"default": ["half"]}, [])[1]["sweeps"][0]
    assert after["started"] == before["started"] and after["starts"] == 2
    assert after["wall_clock"] == pytest.approx(50 + second["ended"] - second["started"], abs=0.1)


def test_a_sweep_of_an_older_version_has_no_wall_clock_if_it_was_interrupted(runs: Path) -> None:
    path = runs / "sweeps/whole/sweep.json"
    document = read_json(path) or {}
    del document["commands"]
    for starts, wall_clock in ((1, document["ended"] - document["started"]), (3, None)):
        write_json(path, document | {"starts": starts})
        (whole,) = collect(runs, {"default": ["whole", "whole"]}, [])[1]["sweeps"]
        assert (whole["wall_clock"], whole["started"], whole["starts"]) == (wall_clock, document["started"], starts)


def test_what_was_collected_can_be_stored_and_written_again(runs: Path) -> None:
    """Cells that have not begun have no settings, and other types in a table."""
    names = {"default": ["whole", "half"]}
    for _ in range(2):
        add_data(runs / "docs/data", *collect(runs, names, []))
        text = write_page(runs / "docs").read_text()
        assert text.count(" | default | interrupted | 1 of 4 |") == 1
    assert len(read_data(runs / "docs/data")[0]) == 8


def test_a_search_of_another_kind_is_one_line(runs: Path) -> None:
    trial = {"number": 0, "value": 0.5, "values": {}, "seconds": 1.0}
    study = {"dataset": "qm9", "method": "sum", "d": "1", "finished": 1, "pruned": 0, "importances": {}}
    for name in ("tuned", "fit"):
        (runs / "tunings" / name).mkdir(parents=True)
    write_json(runs / "tunings/tuned/studies.json", {"studies": [study | {"trials": [trial]}] * 2})
    fitted = study | {"trials": [trial | {"by_method": {}, "state": "COMPLETE"}], "best": 0}
    write_json(runs / "tunings/fit/studies.json", {"studies": [fitted]})
    for name in ("tuned", "nothing"):
        with pytest.raises(ConfigError, match=f"no search '{name}' of `permlab reproduce` in .*; choose from: fit$"):
            collect(runs, {}, [name])


def test_what_does_not_exist_is_one_line(runs: Path) -> None:
    with pytest.raises(ConfigError, match="no sweep 'other' in .*; choose from: half, whole"):
        cells_of(runs, default=["other"])


def test_oscillation_is_the_size_of_the_changes_in_the_second_half() -> None:
    values = [0.1, 0.9, 0.2, 0.5, 0.6, 0.5, 0.6, 0.5]
    entries = [{"epoch": i, "holdout_perm/auc": value, "train/auc": 0.0} for i, value in enumerate(values)]
    assert oscillation_of(pd.DataFrame(entries)) == pytest.approx(0.1) and math.isnan(oscillation_of(pd.DataFrame()))
