"""What MLflow holds of a run; and its store: created by several processes at once, killed, with other addresses."""

import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from permlab.platform.files.json_files import read_json, write_json
from permlab.platform.run.histories import read_history
from permlab.platform.tracking.store import connect, sqlite_file
from tests.platform.calling import DATA, call, only_cell, only_run

WORDS = ("train", DATA, "method=sort", "d=3", "train.epochs=7", "train.eval_every=3", "threads=1")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which one run was trained and recorded in the embedded store."""
    folder = tmp_path_factory.mktemp("finished")
    code, _, err = call(folder, *WORDS, PERMLAB_CACHE=str(folder / "cache"))
    assert code == 0, err
    return folder


def test_mlflow_has_the_whole_run(finished: Path) -> None:
    client = connect(finished / "runs")
    run = only_run(client)
    cell = only_cell(finished)
    assert (run.info.run_name, run.info.status) == ("sort-d3-s0", "FINISHED")
    tags = run.data.tags
    assert (tags["method"], tags["d"], tags["seed"], tags["permlab.key"]) == ("sort", "3", "0", cell.name)
    assert len(tags["dataset.digest"]) == 64 and tags["host"] == socket.gethostname() and tags["git.commit"]
    assert (run.data.params["train.epochs"], run.data.params["model.hidden"]) == ("7", "50")
    (data,) = run.inputs.dataset_inputs
    assert data.dataset.name == "synthetic,graphs=90,max_nodes=8,task=classification"
    assert tags["dataset.digest"].startswith(data.dataset.digest) and len(data.dataset.digest) == 8
    columns = [column["name"] for column in json.loads(data.dataset.schema)["mlflow_colspec"]]
    assert columns == [*(f"x{i}" for i in range(8)), "sign of score"]
    assert (tags["mlflow.source.name"], tags["mlflow.source.git.commit"]) == ("permlab train", tags["git.commit"])
    history = read_history(cell)
    assert [entry["epoch"] for entry in history] == list(range(1, 8))
    for metric in ("train/auc", "holdout/ap", "holdout_perm/acc", "train/running_loss"):
        stored = {point.step: point.value for point in client.get_metric_history(run.info.run_id, metric)}
        assert stored == {entry["epoch"]: entry[metric] for entry in history if metric in entry}
    assert set(stored) == {1, 2, 3, 4, 5, 6, 7}
    names = {item.path for item in client.list_artifacts(run.info.run_id)}
    assert {"config.yaml", "predictions.parquet", "weights.pt", "history.jsonl"} <= names
    result = read_json(cell / "result.json")
    assert result["graphs"] == {"train": 72, "validation": 0, "holdout": 18}
    for group in ("graphs", "certificate"):
        assert {name: run.data.metrics[f"whole_run/{group}/{name}"] for name in result[group]} == result[group]
    (point,) = client.get_metric_history(run.info.run_id, "whole_run/cost/parameters")
    assert (point.value, point.step) == (result["parameters"], 0)  # at step 0 MLflow draws bars
    assert max(name for name in run.data.metrics if not name.startswith("whole")) < "whole"  # after the curves
    assert json.loads(tags["numerics"]) == [result["numerics"]]
    assert {"name": tags["engine"], "reason": tags["engine.reason"]} == result["engine"]


def test_metrics_can_be_computed_from_the_predictions(finished: Path) -> None:
    cell = only_cell(finished)
    table = pyarrow.parquet.read_table(cell / "predictions.parquet").to_pandas()
    assert table.groupby("split").size().to_dict() == {"train": 72, "holdout": 18, "holdout_perm": 18}
    holdout = table[table.split == "holdout"]
    accuracy = ((holdout.prediction >= 0) == (holdout.y == 1)).mean()
    assert accuracy == pytest.approx(read_json(cell / "result.json")["metrics"]["holdout"]["acc"], abs=1e-6)


def test_weights_load_again_from_disk_and_from_mlflow(finished: Path, permlab, monkeypatch) -> None:
    monkeypatch.chdir(finished)
    monkeypatch.setenv("PERMLAB_CACHE", str(finished / "cache"))
    cell = only_cell(finished)
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
        (["nonsense"], "no run 'nonsense' in runs, nor in sqlite"),
        (["RUN", "--dataset", "synthetic,graphs=5,features=3"], "has other features"),
        (
            ["RUN", "--dataset", "synthetic,graphs=5,min_nodes=20,task=classification"],
            "graph of .* nodes; .* 8",
        ),
        (["RUN", "--dataset", "synthetic,graphs=9,max_nodes=8"], "regression; .* classif"),
        (["RUN", "--dataset", "qm8"], "did you mean 'qm9'"),
    ],
)
def test_what_cannot_be_predicted(finished: Path, permlab, monkeypatch, words: list[str], says: str) -> None:
    monkeypatch.chdir(finished)
    words = [str(only_cell(finished)) if word == "RUN" else word for word in words]
    code, out, err = permlab("predict", *words)
    assert code in (1, 2) and out == "" and err.count("\n") == 1
    assert re.search(says, err), err


def test_weights_of_an_older_version_are_refused(finished: Path, permlab, tmp_path: Path, monkeypatch) -> None:
    old = tmp_path / "old"
    shutil.copytree(only_cell(finished), old)
    run, result = read_json(old / "run.json"), read_json(old / "result.json")
    for new in ("version", "engine", "numerics", "mixed"):  # older versions did not write these
        del run[new]
    del result["files"]
    write_json(old / "run.json", run)
    write_json(old / "result.json", result)
    code, out, err = permlab("predict", str(old))
    assert (code, out, err.count("\n")) == (1, "", 1) and "older version" in err and "train this run again" in err


def test_a_finished_run_is_shown_again(finished: Path) -> None:
    cell = only_cell(finished)
    before = (cell / "result.json").stat().st_mtime_ns
    code, out, err = call(finished, *WORDS, "--json", PERMLAB_CACHE=str(finished / "cache"))
    assert code == 0 and "is done already" in err and '"method": "sort"' in out
    assert (cell / "result.json").stat().st_mtime_ns == before


def test_a_new_store_survives_a_kill_and_several_openers_at_once(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from permlab.platform.tracking.store import connect; connect(pathlib.Path(sys.argv[1]))"
    )
    clean = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}

    def opener() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], env=clean, stderr=subprocess.PIPE, text=True
        )

    killed = opener()
    limit = time.monotonic() + 90
    log, size = tmp_path / "mlflow.db.part-wal", 0
    while size < 200_000:  # of about 4,000,000: in the middle of a migration
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


def test_a_new_store_takes_nothing_from_an_old_one(tmp_path: Path) -> None:
    """A killed process leaves a log beside the database; then the database is removed by hand."""
    code = (
        "import os, signal, sys, pathlib; from permlab.platform.tracking.store import connect\n"
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
def test_a_store_may_have_other_forms_of_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.format(tmp_path))
    assert [experiment.name for experiment in connect(tmp_path).search_experiments()] == ["Default"]
    assert {file.name for file in tmp_path.glob("*.db")} == {"file x.db" if "%" in uri else "x.db"}
    assert sqlite_file("sqlite:///:memory:") is None
