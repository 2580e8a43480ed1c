"""A courier delivers a run while it is trained, whatever happens to the run, to the courier and to the machine."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from permlab.datasets.store import GraphStore
from permlab.platform.errors import DamagedFile
from permlab.platform.files.json_files import read_json, write_json
from permlab.platform.run.cell import run_cell
from permlab.platform.run.histories import read_history
from permlab.platform.run.record import Record
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import read_settings
from permlab.platform.tracking.cell_delivery import CellDelivery
from permlab.platform.tracking.courier import Courier
from permlab.platform.tracking.courier_process import follow
from permlab.platform.tracking.store import connect
from permlab.tasks.task import GraphTask
from tests.platform.calling import DATA, call, only_cell, only_run, runs_in, start
from tests.platform.driving import drive


def test_kill_nine_then_the_same_command_gives_the_same_numbers(tmp_path: Path) -> None:
    words = ("train", DATA, "method=ordering", "train.epochs=120", "train.checkpoint_every=7", "threads=1")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    assert call(whole, *words, "track=false")[0] == 0
    for least in (10, 45):
        process = start(parts, *words)
        limit = time.monotonic() + 90
        while not ((parts / "runs").exists() and len(read_history(next((parts / "runs" / "cells").iterdir()))) > least):
            assert time.monotonic() < limit and process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not (only_cell(parts) / "result.json").exists(), "it was done before it was killed"
    code, _, err = call(parts, *words)
    assert code == 0, err
    cells = only_cell(whole), only_cell(parts)
    assert cells[0].name == cells[1].name
    expected, resumed = (read_json(cell / "result.json")["metrics"] for cell in cells)
    assert resumed == expected
    expected, resumed = (torch.load(cell / "weights.pt", weights_only=True) for cell in cells)
    assert all(torch.equal(expected[name], resumed[name]) for name in expected)
    client = connect(parts / "runs")
    run = only_run(client)  # one run, not three
    assert run.info.status == "FINISHED"
    steps = [point.step for point in client.get_metric_history(run.info.run_id, "train/running_loss")]
    assert sorted(steps) == list(range(1, 121))


def test_a_courier_whose_run_is_already_dead_marks_it_as_killed(tmp_path: Path) -> None:
    """A courier takes seconds to start; the run may be killed, and started again, in the meantime."""
    words = [DATA, "threads=1", f"runs={tmp_path / 'runs'}"]
    settings = read_settings(RunSettings, words)
    record = Record(settings, GraphStore.open(settings.dataset, build_missing=True))
    record.folder.mkdir(parents=True)
    record.start()
    dead = subprocess.Popen(["true"])
    dead.wait()
    courier = [
        sys.executable,
        "-m",
        "permlab.platform.tracking.courier_process",
        str(record.folder),
        str(dead.pid),
        "now",
    ]
    process = subprocess.run(courier, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    assert only_run(connect(tmp_path / "runs")).info.status == "KILLED"


@pytest.fixture
def undelivered(tmp_path: Path) -> Path:
    """The folder of a run that is finished but not in any store."""
    words = [DATA, "train.epochs=3", "threads=1", f"runs={tmp_path / 'runs'}"]
    run_cell(read_settings(RunSettings, words))
    return only_cell(tmp_path)


@pytest.mark.parametrize("dead", [True, False])
def test_couriers_without_a_core_are_replaced(undelivered: Path, monkeypatch, capsys, dead: bool) -> None:
    """Our own courier is replaced, and so is that of a dead process."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr("permlab.platform.tracking.courier.SOON", 0.1)  # less than Python needs to start
    parent = "1" if dead else str(os.getpid())
    stopped = subprocess.Popen(
        [sys.executable, "-m", "permlab.platform.tracking.courier_process", str(undelivered.resolve()), parent, "now"]
    )
    try:
        limit = time.monotonic() + 60
        while not (undelivered / ".delivery.pid").exists():
            assert time.monotonic() < limit and stopped.poll() is None
            time.sleep(0.01)
        stopped.send_signal(signal.SIGSTOP)
        courier = Courier(undelivered)
        courier.send()
        first = courier.process
        courier.wait(60 if dead else 8)
        assert first is not None and first.returncode == -signal.SIGKILL
        if not dead:
            assert stopped.poll() is None and "not in MLflow yet: no answer" in capsys.readouterr().err
            return
        assert stopped.wait(10) == -signal.SIGKILL
    finally:
        stopped.kill()
    assert courier.process is not None and courier.process.returncode == 0 and capsys.readouterr().err == ""
    assert only_run(connect(undelivered.parent.parent)).info.status == "FINISHED"


def test_metrics_that_are_sent_again_do_not_count_twice(undelivered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A courier is killed when the store has the metrics, but not yet the final status."""
    client = connect(undelivered.parent.parent)

    def die(*words: object) -> None:
        raise KeyboardInterrupt

    for _ in range(2):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(client, "set_terminated", die)
            CellDelivery(undelivered, client).advance()
        time.sleep(0.01)
    CellDelivery(undelivered, client).advance()
    run = only_run(client)
    for metric in ("train/running_loss", "whole_run/cost/parameters"):
        steps = [point.step for point in client.get_metric_history(run.info.run_id, metric)]
        assert len(steps) == len(set(steps)) == (3 if metric.startswith("train") else 1)


def test_a_run_that_failed_and_then_finished_has_no_error(undelivered: Path) -> None:
    client, result = connect(undelivered.parent.parent), read_json(undelivered / "result.json")
    write_json(undelivered / "result.json", {"status": "FAILED", "error": "the disk is full", "ended": result["ended"]})
    assert CellDelivery(undelivered, client).advance() == "FAILED"
    assert only_run(client).data.tags["error"] == "the disk is full"
    write_json(undelivered / "result.json", result)
    assert CellDelivery(undelivered, client).advance() == "FINISHED"
    assert only_run(client).info.status == "FINISHED" and "error" not in only_run(client).data.tags


def test_a_courier_delivers_the_others_and_names_the_damaged_cell(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = drive(tmp_path / "runs", "name=x", "seed=[0,1]")
    damaged = sorted(tmp_path.glob("runs/cells/*/history.jsonl"))[0]
    damaged.write_bytes(damaged.read_bytes().replace(b"0.", b"1.", 1))
    with pytest.raises(DamagedFile, match=str(damaged)):
        follow(folder, os.getppid())
    stored = runs_in(connect(tmp_path / "runs"), "x")
    assert {run.info.status for run in stored} == {"FINISHED"} and len(stored) == 2  # the other cell, and the parent


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
    cell = only_cell(tmp_path)
    assert (cell / "checkpoint.pt").exists() and read_json(cell / "result.json")["status"] == "STOPPED"
    assert only_run(connect(tmp_path / "runs")).info.status == "KILLED"


def test_the_last_epoch_is_delivered_after_its_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delivery during the final evaluation must not make the next one miss its metrics."""
    words = [DATA, "train.epochs=3", "train.eval_every=100", "threads=1", f"runs={tmp_path / 'runs'}"]
    client = connect(tmp_path / "runs")
    measure = GraphTask.on_validation_epoch_end

    def deliver_then_measure(task: GraphTask) -> None:
        CellDelivery(only_cell(tmp_path), client).advance()
        measure(task)

    monkeypatch.setattr(GraphTask, "on_validation_epoch_end", deliver_then_measure)
    result = run_cell(read_settings(RunSettings, words))
    CellDelivery(only_cell(tmp_path), client).advance()
    assert only_run(client).data.metrics["holdout/auc"] == result["metrics"]["holdout"]["auc"]
