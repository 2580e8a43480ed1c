"""`permlab deliver`: afterwards the store holds everything on disk, each cell once, whatever went wrong before."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from permlab.platform.files.json_files import read_json
from permlab.platform.files.liveness import holding
from permlab.platform.run.cell import run_cell
from permlab.platform.run.histories import read_history
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import read_settings
from permlab.platform.tracking.store import connect
from tests.platform.calling import DATA, call, only_cell, only_run, runs_in
from tests.platform.driving import QUICK, drive


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path / "runs"


def check_everything_is_stored(runs: Path, name: str) -> Any:
    """The store holds every cell of the sweep once, with parameters, tags, metrics and files; returns the parent."""
    client = connect(runs)
    (parent,) = [run for run in runs_in(client, name) if "permlab.key" not in run.data.tags]
    children = [run for run in runs_in(client, name) if "permlab.key" in run.data.tags]
    stored = {run.data.tags["permlab.key"]: run for run in children}
    planned = [cell["key"] for cell in read_json(runs / "sweeps" / name / "plan.json")["cells"]]
    assert len(children) == len(planned) and set(stored) == set(planned)
    for key, stored_run in stored.items():
        run, result = (read_json(runs / "cells" / key / file) for file in ("run.json", "result.json"))
        tags = run["tags"] | result["tags"] | {"mlflow.parentRunId": parent.info.run_id, "permlab.sweep": name}
        assert stored_run.info.status == "FINISHED" and stored_run.data.tags.items() >= tags.items()
        assert stored_run.data.params == run["params"]
        history = read_history(runs / "cells" / key)
        for metric in {name for entry in history for name in entry} - {"epoch"}:
            points = [(point.step, point.value) for point in client.get_metric_history(stored_run.info.run_id, metric)]
            assert sorted(points) == [(entry["epoch"], entry[metric]) for entry in history if metric in entry]
        files = {item.path for item in client.list_artifacts(stored_run.info.run_id)}
        assert files == {"config.yaml", "predictions.parquet", "weights.pt", "run.json", "history.jsonl", "result.json"}
    assert parent.info.status == read_json(runs / "sweeps" / name / "sweep.json")["status"]
    return parent


def test_runs_made_while_the_store_was_away_are_delivered(runs: Path, permlab) -> None:
    """The sweep was delivered completely; then it got cells that nobody delivered."""
    drive(runs, "name=x", "method=[sum,sort]", "seed=0")
    assert permlab("deliver", f"runs={runs}")[:2] == (0, "3 runs delivered\n")
    drive(runs, "name=x", "method=[sum,sort]", "seed=[0,1]")
    assert permlab("deliver", f"runs={runs}")[:2] == (0, "3 runs delivered\n")  # two cells and the changed parent
    parent = check_everything_is_stored(runs, "x")
    assert parent.data.params["seed"] == "[0, 1]"
    assert permlab("deliver", f"runs={runs}")[:2] == (0, "nothing was waiting\n")


def test_a_cell_whose_folder_was_removed_is_stored_once(runs: Path, permlab) -> None:
    drive(runs, "name=x", "seed=[0,1]")
    permlab("deliver", f"runs={runs}")
    before = {run.info.run_id for run in runs_in(connect(runs), "x")}
    removed = next((runs / "cells").iterdir())
    shutil.rmtree(removed)
    drive(runs, "name=x", "seed=[0,1]")
    assert removed.exists() and permlab("deliver", f"runs={runs}")[0] == 0
    check_everything_is_stored(runs, "x")
    after = {run.info.run_id for run in runs_in(connect(runs), "x")}
    assert len(after) == 3 and len(before - after) == 1
    assert not list(runs.glob("cells/*/delivered-*")), "a finished cell needs no record of delivery progress"


def test_runs_that_the_store_lost_are_delivered_again(runs: Path, permlab) -> None:
    drive(runs, "name=x", "seed=[0,1]")
    permlab("deliver", f"runs={runs}")
    client = connect(runs)
    for run in runs_in(client, "x"):
        if run.data.tags.get("seed") != "0":
            client.delete_run(run.info.run_id)
    assert permlab("deliver", f"runs={runs}")[:2] == (0, "2 runs delivered\n")  # a cell and the parent
    check_everything_is_stored(runs, "x")


def test_a_run_becomes_part_of_a_sweep_and_stays_one_run(runs: Path, permlab) -> None:
    words = [DATA, *QUICK, f"runs={runs}", "experiment=x"]
    run_cell(read_settings(RunSettings, words))
    assert permlab("deliver", f"runs={runs}")[1] == "1 run delivered\n"
    drive(runs, "name=x", "seed=[0,1]")
    assert permlab("deliver", f"runs={runs}")[1] == "2 runs delivered\n"
    check_everything_is_stored(runs, "x")


def test_a_damaged_cell_does_not_keep_the_others_waiting(runs: Path, permlab) -> None:
    drive(runs, "name=x", "seed=[0,1,2]")
    history = sorted(runs.glob("cells/*/history.jsonl"))[0]
    result = sorted(runs.glob("cells/*/result.json"))[1]
    history.write_text(history.read_text().replace("0.", "1.", 1))
    result.write_bytes(b"\xff" + result.read_bytes()[1:])
    code, out, err = permlab("deliver", f"runs={runs}")
    assert (code, out) == (1, "2 runs delivered\n")  # the third cell, and the parent
    assert len(err.splitlines()) == 2 and str(history) in err and str(result) in err
    drive(runs, "name=x", "seed=[0,1,2]")  # the damaged ones are run again
    assert permlab("deliver", f"runs={runs}")[0] == 0
    check_everything_is_stored(runs, "x")


def test_a_sweep_whose_driver_died_is_delivered_as_killed(runs: Path, permlab) -> None:
    folder = drive(runs, "name=x", "seed=[0,1]", status=None, most=1)
    with holding(folder / ".driver.lock"):
        assert permlab("deliver", f"runs={runs}")[1] == "nothing was waiting\n"  # its courier delivers it
    assert permlab("deliver", f"runs={runs}")[1] == "2 runs delivered\n"
    assert {run.info.run_name: run.info.status for run in runs_in(connect(runs), "x")} == {
        "x": "KILLED",
        "sum-d2-s0": "FINISHED",
    }
    assert permlab("deliver", f"runs={runs}")[1] == "nothing was waiting\n"
    drive(runs, "name=x", "seed=[0,1]")
    assert permlab("deliver", f"runs={runs}")[1] == "2 runs delivered\n"
    check_everything_is_stored(runs, "x")


def test_a_sweep_that_a_courier_is_delivering_is_left_to_it(runs: Path, permlab) -> None:
    folder = drive(runs, "name=x")
    with holding(folder / ".delivery.lock"):
        code, out, err = permlab("deliver", f"runs={runs}")
    assert (code, out) == (0, "nothing was waiting\n") and "x is being delivered by another process" in err


def test_a_file_is_not_a_runs_folder(tmp_path: Path, permlab) -> None:
    (tmp_path / "file").touch()
    code, out, err = permlab("deliver", f"runs={tmp_path / 'file'}")
    assert (code, out, err.count("\n")) == (2, "", 1) and "is not a folder" in err


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_server_that_is_down_loses_nothing(tmp_path: Path) -> None:
    """The run finishes; when the server is up, a later command delivers everything."""
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    words = ("train", DATA, "train.epochs=4", "threads=1")
    code, out, err = call(tmp_path, *words, MLFLOW_TRACKING_URI=uri)
    assert code == 0 and "holdout_perm" in out
    assert "not in MLflow" in err and "permlab deliver" in err
    code, _, err = call(tmp_path, "deliver", MLFLOW_TRACKING_URI=uri)
    assert code == 1 and f"{uri} cannot be reached" in err and "Traceback" not in err
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    store = [
        "--backend-store-uri",
        f"sqlite:///{tmp_path}/server.db",
        "--artifacts-destination",
        str(tmp_path / "served"),
    ]
    server = subprocess.Popen(
        [*command, *store], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        _wait_for(f"{uri}/health")
        code, out, err = call(tmp_path, "deliver", MLFLOW_TRACKING_URI=uri)
        assert (code, out) == (0, "1 run delivered\n"), err
        assert call(tmp_path, "deliver", MLFLOW_TRACKING_URI=uri)[1] == "nothing was waiting\n"
        from mlflow import MlflowClient

        client = MlflowClient(uri)
        run = only_run(client)
        assert run.info.status == "FINISHED"
        assert (
            run.data.metrics["holdout/auc"]
            == read_json(only_cell(tmp_path) / "result.json")["metrics"]["holdout"]["auc"]
        )
        assert "weights.pt" in {item.path for item in client.list_artifacts(run.info.run_id)}
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def _wait_for(url: str, seconds: float = 90) -> None:
    limit = time.monotonic() + seconds
    while True:
        try:
            with urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            assert time.monotonic() < limit, f"{url} did not answer in time"
            time.sleep(0.2)
