"""Runs reach MLflow: a real store, a real server, and a server that is down."""

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pyarrow.parquet
import pytest
import torch

from permlab.datasets.store import GraphStore
from permlab.platform.cell import run_cell
from permlab.platform.config import RunSettings
from permlab.platform.courier import Courier
from permlab.platform.histories import read_history
from permlab.platform.json_files import read_json, write_json
from permlab.platform.record import Record
from permlab.platform.settings import read_settings
from permlab.platform.tracking import CellDelivery, connect, sqlite_file
from permlab.tasks.task import GraphTask

DATA = "dataset=synthetic,graphs=90,max_nodes=8,task=classification"
CLI = [sys.executable, "-c", "import sys; from permlab.platform.cli import main; sys.exit(main(sys.argv[1:]))"]


def start(folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    """`permlab …` in a process of its own, in this folder."""
    clean = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    return subprocess.Popen(
        [*CLI, *words], cwd=folder, env=clean | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def call(folder: Path, *words: str, **environment: str) -> tuple[int, str, str]:
    process = start(folder, *words, **environment)
    out, err = process.communicate(timeout=180)
    return process.returncode, out, err


def only_run(client, experiment: str = "permlab"):
    found = client.get_experiment_by_name(experiment)
    (run,) = client.search_runs([found.experiment_id])
    return run


def cell_folder(folder: Path) -> Path:
    (cell,) = (folder / "runs" / "cells").iterdir()
    return cell


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which one run was trained and recorded in the embedded store."""
    folder = tmp_path_factory.mktemp("finished")
    words = ("train", DATA, "method=sort", "d=3", "train.epochs=7", "train.eval_every=3", "threads=1")
    code, _, err = call(folder, *words, PERMLAB_CACHE=str(folder / "cache"))
    assert code == 0, err
    return folder


def test_a_run_is_recorded_as_designed(finished: Path) -> None:
    client = connect(finished / "runs")
    run = only_run(client)
    cell = cell_folder(finished)
    assert (run.info.run_name, run.info.status) == ("sort-d3-s0", "FINISHED")
    tags = run.data.tags
    assert (tags["method"], tags["d"], tags["seed"], tags["permlab.key"]) == ("sort", "3", "0", cell.name)
    assert len(tags["dataset.digest"]) == 64 and tags["host"] == socket.gethostname() and tags["git.commit"]
    assert (run.data.params["train.epochs"], run.data.params["model.hidden"]) == ("7", "50")
    (data,) = run.inputs.dataset_inputs
    assert data.dataset.name == "synthetic,graphs=90,max_nodes=8,task=classification"
    assert tags["dataset.digest"].startswith(data.dataset.digest)
    history = read_history(cell)
    assert [entry["epoch"] for entry in history] == list(range(1, 8))
    for metric in ("train/auc", "holdout/ap", "holdout_perm/acc", "train/running_loss"):
        stored = {point.step: point.value for point in client.get_metric_history(run.info.run_id, metric)}
        assert stored == {entry["epoch"]: entry[metric] for entry in history if metric in entry}
    assert set(stored) == {1, 2, 3, 4, 5, 6, 7}
    names = {item.path for item in client.list_artifacts(run.info.run_id)}
    assert {"config.yaml", "curves.png", "predictions.parquet", "weights.pt", "history.jsonl"} <= names
    result = read_json(cell / "result.json")
    assert result["graphs"] == {"train": 72, "validation": 0, "holdout": 18}
    for group in ("graphs", "certificate"):
        assert {name: run.data.metrics[f"{group}/{name}"] for name in result[group]} == result[group]
    assert run.data.metrics["cost/parameters"] == result["parameters"]
    assert json.loads(tags["numerics"]) == [result["numerics"]]
    assert {"name": tags["engine"], "reason": tags["engine.reason"]} == result["engine"]


def test_predictions_are_those_the_metrics_were_made_of(finished: Path) -> None:
    cell = cell_folder(finished)
    table = pyarrow.parquet.read_table(cell / "predictions.parquet").to_pandas()
    assert table.groupby("split").size().to_dict() == {"train": 72, "holdout": 18, "holdout_perm": 18}
    holdout = table[table.split == "holdout"]
    accuracy = ((holdout.prediction >= 0) == (holdout.y == 1)).mean()
    assert accuracy == pytest.approx(read_json(cell / "result.json")["metrics"]["holdout"]["acc"], abs=1e-6)


def test_weights_load_again_from_disk_and_from_mlflow(finished: Path, permlab, monkeypatch) -> None:
    monkeypatch.chdir(finished)
    monkeypatch.setenv("PERMLAB_CACHE", str(finished / "cache"))
    cell = cell_folder(finished)
    stored = pyarrow.parquet.read_table(cell / "predictions.parquet").to_pandas()
    stored = stored[stored.split != "holdout_perm"].sort_values("graph_id").prediction.to_numpy()
    run_id = only_run(connect(finished / "runs")).info.run_id
    for run in (str(cell), cell.name[:8], run_id):
        code, _, err = permlab("predict", run, "--out", "scores.parquet")
        assert code == 0, err
        scores = pyarrow.parquet.read_table("scores.parquet").column("prediction").to_numpy()
        np.testing.assert_allclose(scores, stored, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nonsense"], "'nonsense' is no run in runs, nor in sqlite"),
        (["RUN", "--dataset", "synthetic,graphs=5,features=3"], "has other features"),
        (
            ["RUN", "--dataset", "synthetic,graphs=5,min_nodes=20,task=classification"],
            "has a graph of .* nodes; this run's readout ends at 8",
        ),
        (["RUN", "--dataset", "synthetic,graphs=9,max_nodes=8"], "is a regression; the run was trained for classif"),
        (["RUN", "--dataset", "qm8"], "did you mean 'qm9'"),
    ],
)
def test_what_cannot_be_predicted(finished: Path, permlab, monkeypatch, words: list[str], says: str) -> None:
    monkeypatch.chdir(finished)
    words = [str(cell_folder(finished)) if word == "RUN" else word for word in words]
    code, out, err = permlab("predict", *words)
    assert code in (1, 2) and out == "" and err.count("\n") == 1
    assert re.search(says, err), err


def test_weights_of_an_older_version_are_refused(finished: Path, permlab, tmp_path: Path, monkeypatch) -> None:
    old = tmp_path / "old"
    shutil.copytree(cell_folder(finished), old)
    run = read_json(old / "run.json")
    for new in ("version", "engine", "numerics", "mixed"):  # what the version before did not write
        del run[new]
    write_json(old / "run.json", run)
    code, out, err = permlab("predict", str(old))
    assert (code, out, err.count("\n")) == (1, "", 1) and "older version" in err and "train this run again" in err


def test_a_finished_run_is_shown_again(finished: Path) -> None:
    cell = cell_folder(finished)
    before = (cell / "result.json").stat().st_mtime_ns
    code, out, err = call(finished, "train", str(cell / "config.yaml"), "--json", PERMLAB_CACHE=str(finished / "cache"))
    assert code == 0 and "is done already" in err and '"method": "sort"' in out
    assert (cell / "result.json").stat().st_mtime_ns == before


def test_kill_nine_then_the_same_command_gives_the_same_numbers(tmp_path: Path) -> None:
    words = ("train", DATA, "method=ordering", "train.epochs=120", "train.checkpoint_every=7", "threads=1")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    assert call(whole, *words, "track=false")[0] == 0
    epochs_seen: list[int] = []
    for least in (10, 45):
        process = start(parts, *words)
        limit = time.monotonic() + 90
        while not ((parts / "runs").exists() and len(read_history(next((parts / "runs" / "cells").iterdir()))) > least):
            assert time.monotonic() < limit and process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        epochs_seen.append(len(read_history(cell_folder(parts))))
        assert not (cell_folder(parts) / "result.json").exists(), "it was done before it was killed"
    code, _, err = call(parts, *words)
    assert code == 0, err
    left, right = cell_folder(whole), cell_folder(parts)
    assert left.name == right.name
    assert read_json(left / "result.json")["metrics"] == read_json(right / "result.json")["metrics"]
    ours, theirs = (torch.load(cell / "weights.pt", weights_only=True) for cell in (left, right))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    client = connect(parts / "runs")
    run = only_run(client)  # one run, not three
    assert run.info.status == "FINISHED"
    steps = [point.step for point in client.get_metric_history(run.info.run_id, "train/running_loss")]
    assert sorted(steps) == list(range(1, 121))


def test_a_new_store_survives_a_kill_and_several_openers_at_once(tmp_path: Path) -> None:
    code = "import sys, pathlib; from permlab.platform.tracking import connect; connect(pathlib.Path(sys.argv[1]))"
    clean = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}

    def opener() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], env=clean, stderr=subprocess.PIPE, text=True
        )

    killed = opener()
    limit = time.monotonic() + 90
    log, size = tmp_path / "mlflow.db.part-wal", 0
    while size < 200_000:  # of some 4,000,000: in mid-migration
        assert time.monotonic() < limit and killed.poll() is None
        with suppress(FileNotFoundError):
            size = log.stat().st_size
        time.sleep(0.001)
    killed.kill()
    killed.communicate()
    assert not (tmp_path / "mlflow.db").exists()
    for process in [opener(), opener()]:
        _, err = process.communicate(timeout=90)
        assert process.returncode == 0, err
    assert [experiment.name for experiment in connect(tmp_path).search_experiments()] == ["Default"]
    assert not list(tmp_path.glob("*.part*"))


def test_a_new_store_takes_nothing_of_an_old_one(tmp_path: Path) -> None:
    """A killed process leaves a log beside the database; then the database is removed by hand."""
    code = (
        "import os, signal, sys, pathlib; from permlab.platform.tracking import connect\n"
        "client = connect(pathlib.Path(sys.argv[1]))\n"
        "for number in range(20): client.create_experiment(f'old {number}')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    clean = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=clean)
    assert (tmp_path / "mlflow.db-wal").stat().st_size > 0
    (tmp_path / "mlflow.db").unlink()
    assert [experiment.name for experiment in connect(tmp_path).search_experiments()] == ["Default"]
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize(
    "uri", ["sqlite:///{}/x.db?timeout=30", "sqlite:///{}/file%20x.db", "sqlite+pysqlite:///{}/x.db"]
)
def test_a_store_may_be_named_in_other_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.format(tmp_path))
    assert [experiment.name for experiment in connect(tmp_path).search_experiments()] == ["Default"]
    assert {file.name for file in tmp_path.glob("*.db")} == {"file x.db" if "%" in uri else "x.db"}
    assert sqlite_file("sqlite:///:memory:") is None


def test_a_courier_whose_run_is_dead_already_says_so_and_goes(tmp_path: Path) -> None:
    """It takes seconds to start; a run may be killed, and begun again, in the meantime."""
    words = [DATA, "threads=1", f"runs={tmp_path / 'runs'}"]
    settings = read_settings(RunSettings, words)
    record = Record(settings, GraphStore.open(settings.dataset, build_missing=True).manifest)
    record.folder.mkdir(parents=True)
    record.start()
    dead = subprocess.Popen(["true"])
    dead.wait()
    courier = [sys.executable, "-m", "permlab.platform.follow", str(record.folder), str(dead.pid), "now"]
    done = subprocess.run(courier, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert only_run(connect(tmp_path / "runs")).info.status == "KILLED"


@pytest.fixture
def untold(tmp_path: Path) -> Path:
    """The folder of a run that is done, and in no store."""
    words = [DATA, "train.epochs=3", "threads=1", f"runs={tmp_path / 'runs'}"]
    run_cell(read_settings(RunSettings, words))
    return cell_folder(tmp_path)


@pytest.mark.parametrize("dead", [True, False])
def test_couriers_without_a_core_are_replaced(untold: Path, monkeypatch, capsys, dead: bool) -> None:
    """Those of dead processes, and one's own."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr("permlab.platform.courier.SOON", 0.1)  # less than Python needs to start
    parent = "1" if dead else str(os.getpid())
    left = subprocess.Popen([sys.executable, "-m", "permlab.platform.follow", str(untold.resolve()), parent, "now"])
    try:
        limit = time.monotonic() + 60
        while not (untold / ".delivery.pid").exists():
            assert time.monotonic() < limit and left.poll() is None
            time.sleep(0.01)
        left.send_signal(signal.SIGSTOP)
        courier = Courier(untold)
        courier.send()
        first = courier.process
        courier.wait(60 if dead else 8)
        assert first is not None and first.returncode == -signal.SIGKILL
        if not dead:
            assert left.poll() is None and "not in MLflow yet: no answer" in capsys.readouterr().err
            return
        assert left.wait(10) == -signal.SIGKILL
    finally:
        left.kill()
    assert courier.process is not None and courier.process.returncode == 0 and capsys.readouterr().err == ""
    assert only_run(connect(untold.parent.parent)).info.status == "FINISHED"


def test_what_is_sent_again_does_not_count_twice(untold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A courier is killed when the store has the metrics, and it has not yet written that down."""
    client, save = connect(untold.parent.parent), CellDelivery.save

    def die(delivery: CellDelivery, **changes: object) -> None:
        if "epoch" in changes:
            raise KeyboardInterrupt
        save(delivery, **changes)

    for _ in range(2):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(CellDelivery, "save", die)
            CellDelivery(untold, client).advance()
        time.sleep(0.01)
    CellDelivery(untold, client).advance()
    run = only_run(client)
    for metric in ("train/running_loss", "cost/parameters"):
        steps = [point.step for point in client.get_metric_history(run.info.run_id, metric)]
        assert len(steps) == len(set(steps)) == (3 if metric.startswith("train") else 1)


def test_sigterm_checkpoints_and_is_recorded_as_killed(tmp_path: Path) -> None:
    words = ("train", DATA, "train.epochs=1000000", "train.checkpoint_every=1000000", "threads=1")
    process = start(tmp_path, *words)
    limit = time.monotonic() + 90
    while not list(tmp_path.glob("runs/cells/*/history.jsonl")):
        assert time.monotonic() < limit and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143 and "the same command resumes from" in err, err
    cell = cell_folder(tmp_path)
    assert (cell / "checkpoint.pt").exists() and read_json(cell / "result.json")["status"] == "KILLED"
    assert only_run(connect(tmp_path / "runs")).info.status == "KILLED"


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
    assert "not in MLflow yet" in err and "later: permlab deliver" in err
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
            == read_json(cell_folder(tmp_path) / "result.json")["metrics"]["holdout"]["auc"]
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


def test_the_last_epoch_is_told_when_it_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A courier that looks while the final evaluation runs must not miss its metrics."""
    words = [DATA, "train.epochs=3", "train.eval_every=100", "threads=1", f"runs={tmp_path / 'runs'}"]
    client = connect(tmp_path / "runs")
    measure = GraphTask.on_validation_epoch_end

    def look(task: GraphTask) -> None:
        CellDelivery(cell_folder(tmp_path), client).advance()
        measure(task)

    monkeypatch.setattr(GraphTask, "on_validation_epoch_end", look)
    result = run_cell(read_settings(RunSettings, words))
    CellDelivery(cell_folder(tmp_path), client).advance()
    assert only_run(client).data.metrics["holdout/auc"] == result["metrics"]["holdout"]["auc"]
