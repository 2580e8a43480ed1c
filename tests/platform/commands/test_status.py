"""`permlab status`: the state of sweeps, from their files and from the processes that are alive."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from permlab.platform.files.json_files import write_json
from permlab.platform.files.liveness import driving
from permlab.platform.run.histories import history_line
from permlab.platform.sweep.folder import note_under_way
from tests.platform.calling import CLI

DRIVER = (
    "import sys, time, pathlib; from permlab.platform.files.liveness import driving\n"
    "with driving(pathlib.Path(sys.argv[1])): print('drives', flush=True); time.sleep(600)"
)


def make_sweep(runs: Path, cells: int, finished: int, status: str | None) -> Path:
    """A sweep with `finished` finished cells; the next one has started."""
    folder = runs / "sweeps" / "x"
    folder.mkdir(parents=True)
    rows = [{"key": f"k{i}", "name": f"sum-d1-s{i}", "dataset": "synthetic"} for i in range(cells)]
    write_json(folder / "plan.json", {"cells": rows})
    write_json(folder / "sweep.json", {"name": "x", "params": {}, "started": 1e9, "status": status})
    if finished < cells:
        note_under_way(folder, {f"k{finished}": time.time()})
    for row in rows[: finished + 1]:
        (runs / "cells" / row["key"]).mkdir(parents=True)
        write_json(runs / "cells" / row["key"] / "run.json", {"name": row["name"]})
    for row in rows[:finished]:
        metrics = {"holdout": {"auc": 0.5}}
        result = {"status": "FINISHED", "ended": 1e9, "seconds": 1.0, "epochs": 9, "metrics": metrics}
        write_json(runs / "cells" / row["key"] / "result.json", result)
    return folder


def test_a_killed_driver_leaves_an_interrupted_sweep(tmp_path: Path, permlab) -> None:
    folder = make_sweep(tmp_path, cells=3, finished=1, status=None)
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert driver.stdout and driver.stdout.readline() == "drives\n"
        state = json.loads(permlab("status", "x", "--runs", str(tmp_path), "--json")[1])
        assert state["status"] == "RUNNING" and state["counts"] == {"FINISHED": 1, "RUNNING": 1, "WAITING": 1}
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.communicate()
    state = json.loads(permlab("status", "x", "--runs", str(tmp_path), "--json")[1])
    assert state["status"] == "INTERRUPTED" and state["counts"] == {"FINISHED": 1, "INTERRUPTED": 1, "WAITING": 1}
    assert [line.split()[:3] for line in permlab("status", "--runs", str(tmp_path))[1].splitlines()] == [
        ["sweep", "status", "finished"],
        ["x", "interrupted", "1"],
    ]


def test_a_cell_costs_one_file_and_the_same_work_however_many_there_are(tmp_path: Path, permlab) -> None:
    """Calls are counted, not seconds: `permlab bench sweep` measures those."""
    calls, opened = [], []
    for cells in (10, 100, 200, 300):  # the first size only triggers the imports
        make_sweep(tmp_path / str(cells), cells, finished=cells - 1, status="FINISHED")
        events = Counter[str]()

        def count(frame: FrameType, event: str, arg: Any, events: Counter[str] = events) -> None:
            events["call"] += event in ("call", "c_call")
            events["open"] += event == "c_call" and arg.__name__ == "open"

        sys.setprofile(count)
        try:
            _, out, _ = permlab("status", "x", "--runs", str(tmp_path / str(cells)))
        finally:
            sys.setprofile(None)
        assert len(out.splitlines()) == cells + 1 and out.count("  finished  ") == cells - 1 and "interrupted" in out
        calls.append(events["call"])
        opened.append(events["open"])
    assert opened[3] - opened[2] == opened[2] - opened[1] == 100, opened
    assert calls[3] - calls[2] < 1.1 * (calls[2] - calls[1]) < 100 * 300, calls


@pytest.mark.parametrize("words", [("status",), ("status", "x"), ("ui",), ("report", "x")])
def test_a_file_is_not_a_runs_folder(tmp_path: Path, permlab, words: tuple[str, ...]) -> None:
    (tmp_path / "file").touch()
    code, out, err = permlab(*words, "--runs", str(tmp_path / "file"))
    assert (code, out, err.count("\n")) == (2, "", 1) and "file" in err


@pytest.mark.ray
def test_the_next_run_cleans_up_after_a_killed_sweep(one_ray: None, tmp_path: Path) -> None:
    """Driver and courier are killed; the same command removes their leftovers, and MLflow has every cell once."""
    from permlab.platform.tracking.store import connect

    words = ("sweep", "name=x", "dataset=synthetic,graphs=300,max_nodes=12,task=classification", "seed=[0,1]")
    # long enough to be under way when the courier first delivers, on a busy machine too
    words += ("train.epochs=3000", "train.eval_every=100", "train.checkpoint_every=50", "d=3")
    clean = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}

    def sweep() -> subprocess.Popen[bytes]:
        return subprocess.Popen([*CLI, *words], cwd=tmp_path, env=clean, stderr=subprocess.PIPE, start_new_session=True)

    first, limit = sweep(), time.monotonic() + 120
    while not list(tmp_path.glob("runs/cells/*/delivered-*.json")):
        assert time.monotonic() < limit and first.poll() is None
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGKILL)  # driver and courier
    first.communicate()
    states = subprocess.run([*CLI, "status"], cwd=tmp_path, env=clean, capture_output=True, text=True).stdout
    assert states.splitlines()[1].split()[:2] == ["x", "interrupted"]
    assert len(list((tmp_path / "runs").glob(".shared-*"))) == 1
    second = sweep()
    assert second.wait(300) == 0, second.communicate()
    assert not list((tmp_path / "runs").glob(".shared-*"))
    client = connect(tmp_path / "runs")
    stored = client.search_runs([client.get_experiment_by_name("x").experiment_id])
    assert sorted(run.info.run_name for run in stored) == ["sum-d3-s0", "sum-d3-s1", "x"]
    assert {run.info.status for run in stored} == {"FINISHED"}


def test_a_cell_that_was_handed_out_runs_before_its_worker_has_written_anything(tmp_path: Path, permlab) -> None:
    folder = make_sweep(tmp_path, cells=4, finished=1, status=None)
    write_json(folder / "sweep.json", {"name": "x", "params": {"train.epochs": "9"}, "started": 1e9, "status": None})
    note_under_way(folder, {"k1": time.time(), "k2": time.time()})
    lines = [{"epoch": 3, "train/running_loss": 0.5, "holdout/loss": 1.0, "holdout/auc": 0.75}]
    (tmp_path / "cells" / "k1" / "history.jsonl").write_text("".join(map(history_line, lines)))
    with driving(folder):
        state = json.loads(permlab("status", "x", "--runs", str(tmp_path), "--json")[1])
        out = permlab("status", "x", "--runs", str(tmp_path))[1]
    assert [cell["state"] for cell in state["cells"]] == ["FINISHED", "RUNNING", "RUNNING", "WAITING"]
    assert (state["cells"][1]["epoch"], state["cells"][1]["epochs"], state["cells"][1]["value"]) == (3, 9, 0.75)
    assert "3 of 9  holdout AUC 0.7500" in out.splitlines()[2] and "holdout AUC 0.5000" in out.splitlines()[1]


def test_what_the_version_before_called_killed_was_stopped(tmp_path: Path, permlab) -> None:
    make_sweep(tmp_path, cells=2, finished=1, status="KILLED")
    write_json(tmp_path / "cells" / "k1" / "result.json", {"status": "KILLED", "error": "stopped", "ended": 2e9})
    state = json.loads(permlab("status", "x", "--runs", str(tmp_path), "--json")[1])
    assert (state["status"], state["counts"]) == ("STOPPED", {"FINISHED": 1, "STOPPED": 1})
