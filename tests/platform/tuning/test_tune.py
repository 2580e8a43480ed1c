"""`permlab tune` on real Ray: to the end, killed and started again, and then a sweep with the chosen settings."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from permlab.platform.files.json_files import read_json
from permlab.platform.run.histories import whole_history
from tests.infra.processes import command_line
from tests.platform.browsing import CHROMIUM
from tests.platform.calling import free_port, printed_link
from tests.platform.calling import start as start_cli
from tests.platform.dashboard import charts_at

pytestmark = pytest.mark.ray
CLI = [sys.executable, "-m", "permlab.platform.cli"]
DATA = "dataset=synthetic,graphs=300,max_nodes=12,task=classification"
GRID = [DATA, "method=[sum,ordering]", "d=3", "train.epochs=6", "train.eval_every=2", "tune.trials=8"]


@pytest.fixture(scope="module")
def folder(one_ray: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERMLAB_CACHE", str(tmp_path_factory.mktemp("tune-cache")))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield tmp_path_factory.mktemp("tune")


@pytest.fixture(autouse=True)
def same_cache(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERMLAB_CACHE", str(folder.parent / "tune-cache0"))


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*CLI, *words], cwd=folder, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def call(folder: Path, *words: str) -> tuple[str, str]:
    process = start(folder, *words)
    out, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    return out, err


def trials(folder: Path, name: str) -> dict[str, list[Any]]:
    """What must be the same every time a tuning is run, by study."""
    document = read_json(folder / "runs" / "tunings" / name / "studies.json")
    assert document
    return {
        study["study"].partition("/")[2]: [
            (row["number"], row["state"], row["value"], row["values"], row["steps"]) for row in study["trials"]
        ]
        for study in document["studies"]
    }


def runs_of(folder: Path, experiment: str) -> list[Any]:
    from permlab.platform.tracking.store import connect

    client = connect(folder / "runs")
    experiment_id = client.get_experiment_by_name(experiment).experiment_id
    return list(client.search_runs([experiment_id]))


def test_one_command_tunes_and_sweeps(folder: Path) -> None:
    """Trials are child runs; cells carry study and trial; the chosen settings are an artifact; status shows all."""
    out, _ = call(folder, "sweep", *GRID, "name=whole", "seed=[0,1]", "tune.parallel=1")
    assert out.count("2 of 2") == 4  # two methods, tuned and default
    runs = runs_of(folder, "whole")
    tuning = [run for run in runs if run.data.tags.get("permlab.tuning") and "trial" not in run.data.tags]
    tried = [run for run in runs if run.data.tags.get("permlab.tuning") and "trial" in run.data.tags]
    cells = [run for run in runs if "permlab.key" in run.data.tags]
    assert (len(tuning), len(tried), len(cells)) == (1, 16, 4)
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert {run.data.tags["mlflow.parentRunId"] for run in tried} == {tuning[0].info.run_id}
    assert {run.data.tags["state"] for run in tried} <= {"complete", "pruned"}
    chosen = yaml.safe_load((folder / "runs" / "sweeps" / "whole" / "tuned.yaml").read_text())["studies"]
    best = {choice["method"]: choice for choice in chosen}
    for run in cells:
        choice = best[run.data.tags["method"]]
        assert (run.data.tags["study"], run.data.tags["trial"]) == (choice["study"], str(choice["trial"]))
        assert run.data.params["train.batch_size"] == str(choice["settings"]["train.batch_size"])
        assert (run.data.params["data.split_seed"], run.data.params["data.validation"]) == ("0", "0")
    for study, rows in trials(folder, "whole").items():
        finished = [row[2] for row in rows if row[2] is not None]
        method = study.split("/")[1]
        assert best[method]["value"] == max(finished) >= rows[0][2] == best[method]["default"]
    if CHROMIUM:
        the_dashboard_shows_the_trials(folder)
    status = call(folder, "status")[0]
    assert "whole" in status and "whole.default" in status and "tuning" in status
    assert "ordering-d3-t7" in call(folder, "status", "whole")[0]
    call(folder, "report", "whole")
    page = (folder / "runs" / "sweeps" / "whole" / "report" / "report.md").read_text()
    assert "What did tuning find?" in page and "Tuned against default (mean" in page


def the_dashboard_shows_the_trials(folder: Path) -> None:
    """The tuning has a page beside the sweep's: what every trial reported over its epochs, and its final value."""
    paths = sorted((folder / "runs" / "tunings" / "whole" / "trials").iterdir())
    reported = [[entry["objective"] for entry in whole_history(path)] for path in paths]
    reported = sorted(values for values in reported if len(values) > 1)  # one point is no curve
    values = [row[2] for rows in trials(folder, "whole").values() for row in rows]
    finals = sorted(value for value in values if value is not None)
    dashboard = start_cli(folder, "ui", "--port", str(free_port()))
    try:
        link = printed_link(dashboard, "whole tuning")
        seen = asyncio.run(charts_at(link, folder / "profile", len(reported), len(finals)))
    finally:
        dashboard.send_signal(signal.SIGTERM)
        dashboard.communicate(timeout=60)
    curves, bars = (chart[kind] for chart, kind in zip(seen["charts"], ("curves", "bars"), strict=False))
    drawn = sorted(curve for _, curve in curves if len(curve) > 1)
    assert [*chain(*drawn)] == pytest.approx([*chain(*reported)], abs=1e-5)
    assert sorted(bars) == pytest.approx(finals, abs=0.0051)
    for text in ("validation AUC of the trials", "Parallel Coordinates", "train.learning_rate vs"):
        assert text in seen["text"]


def test_killed_workers_and_a_killed_driver_change_nothing(folder: Path) -> None:
    """With one trial per study at a time the tuning equals, trial by trial, one that was not disturbed."""
    command = ("tune", *GRID, "name=killed", "tune.parallel=1", "retries=100")
    for _ in range(2):
        process = start(folder, *command)
        seen = len(list((folder / "runs" / "tunings" / "killed").glob("trials/*/result.json")))
        kill_worker = time.monotonic() + 400
        killed = False
        while len(list((folder / "runs" / "tunings" / "killed").glob("trials/*/result.json"))) < seen + 4:
            assert process.poll() is None and time.monotonic() < kill_worker, process.communicate()
            workers = [
                child
                for child in psutil.Process(process.pid).children(recursive=True)
                if "ray::_execute" in command_line(child)
            ]
            if workers and not killed:
                workers[0].send_signal(signal.SIGKILL)
                killed = True
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    document = json.loads(call(folder, *command, "--json")[0])
    assert [study["finished"] for study in document["studies"]] == [8, 8]
    if not (folder / "runs" / "tunings" / "whole").exists():
        call(folder, "tune", *GRID, "name=whole", "tune.parallel=1")
    assert trials(folder, "killed") == trials(folder, "whole")
    assert {run.info.status for run in runs_of(folder, "killed")} == {"FINISHED"}


def test_ctrl_c_leaves_nothing_running(folder: Path) -> None:
    long = [word.replace("train.epochs=6", "train.epochs=1000000") for word in GRID]
    process = start(folder, "tune", *long, "name=stopped", "track=false")
    limit = time.monotonic() + 200
    while not list(folder.glob("runs/tunings/stopped/trials/*/history.jsonl")):
        assert process.poll() is None and time.monotonic() < limit, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 130 and "the same command resumes" in err
    states = {row[1] for rows in trials(folder, "stopped").values() for row in rows}
    assert states == {"WAITING"}
    assert list(folder.glob("runs/tunings/stopped/cells/*/checkpoint.pt"))
