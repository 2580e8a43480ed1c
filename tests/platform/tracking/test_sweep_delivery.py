"""What the run of a whole sweep says in MLflow, and its cells as the version before delivered them."""

import base64
import csv
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from permlab.platform.report.make import make_report
from permlab.platform.report.on_disk import read_on_disk
from permlab.platform.sweep.folder import close_folder
from permlab.platform.tracking import cell_delivery
from permlab.platform.tracking.backlog import Backlog
from permlab.platform.tracking.read import read_sweep
from permlab.platform.tracking.store import connect
from permlab.platform.tracking.view import SWEEP, TAG
from tests.platform.calling import runs_in
from tests.platform.driving import drive

GRID = ("name=mine", "method=[sum,sort]", "seed=[0,1]")


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("driven") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERMLAB_CACHE", str(runs.parent / "cache"))
        drive(runs, *GRID)
    return runs


@pytest.fixture
def runs(driven: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runs folder with a finished sweep that is in no store."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copytree(driven, tmp_path / "runs")
    return tmp_path / "runs"


def parent_of(runs: Path) -> Any:
    (parent,) = [run for run in runs_in(connect(runs), "mine") if "permlab.key" not in run.data.tags]
    return parent


def test_the_sweeps_own_run_has_results_source_and_data(runs: Path) -> None:
    Backlog(runs).deliver()
    parent = parent_of(runs)
    with (runs / "sweeps/mine/results.csv").open() as file:
        means = {
            f"whole_sweep/{row['split']}_auc/{row['method']}-d{row['d']}": float(row["mean"])
            for row in csv.DictReader(file)
            if row["metric"] == "auc" and row["split"] != "train"
        }
    assert len(means) == 4 and parent.data.metrics == pytest.approx(means)
    tags = parent.data.tags
    assert tags["mlflow.source.name"] == "permlab sweep mine"
    assert [data.dataset.name for data in parent.inputs.dataset_inputs] == [
        "synthetic,graphs=90,max_nodes=8,task=classification"
    ]
    table = (runs / "sweeps/mine/results.md").read_text().strip()
    assert table in tags["mlflow.note.content"] and "permlab report mine" in tags["mlflow.note.content"]


def test_of_training_alone_the_training_graphs_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    runs = tmp_path / "runs"
    drive(runs, "name=mine", "method=sum", "data.train_only=true")
    Backlog(runs).deliver()
    assert list(parent_of(runs).data.metrics) == ["whole_sweep/train_auc/sum-d2"]
    view = connect(runs).get_experiment_by_name("mine").tags[TAG + SWEEP]
    state = json.loads(zlib.decompress(base64.b64decode(view.removeprefix("deflate;"))))
    assert {chart["metricKey"] for chart in state["compareRunCharts"]} == {"train/auc"}
    assert state["orderByKey"] == "metrics.`train/auc`"


def test_the_description_links_to_the_report_and_keeps_the_link(runs: Path) -> None:
    Backlog(runs).deliver()
    sweep = read_on_disk("mine", runs)
    assert sweep is not None
    make_report(sweep, runs)
    parent = parent_of(runs)
    place = f"#/experiments/{parent.info.experiment_id}/runs/{parent.info.run_id}/artifacts/report/report.html"
    note = parent.data.tags["mlflow.note.content"]
    assert place in note.split("\n\n")[0] and "No report yet" not in note and "| sum |" in note
    assert "report/report.html" in {item.path for item in connect(runs).list_artifacts(parent.info.run_id, "report")}
    close_folder(runs / "sweeps/mine", "FINISHED")  # as the same command does when it is given again
    assert Backlog(runs).deliver().names == ["mine"]
    assert parent_of(runs).data.tags["mlflow.note.content"] == note


def test_a_store_of_the_version_before_is_read(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no prefix before what is measured once, and no models."""
    with monkeypatch.context() as before:
        before.setattr(cell_delivery, "ONCE", "")
        before.setattr(cell_delivery.CellDelivery, "_log_model", lambda self: None)
        Backlog(runs).deliver()
    assert Backlog(runs).deliver().names == []
    on_disk = read_on_disk("mine", runs)
    assert on_disk is not None
    names = [name for name in on_disk.cells if "/" in name]
    assert {"cost/seconds", "graphs/holdout", "certificate/pairs"} <= set(names)
    stored = read_sweep("mine", runs).cells[names]
    assert stored.to_numpy() == pytest.approx(on_disk.cells[names].to_numpy(), nan_ok=True)


def test_what_is_measured_once_is_read_back_without_its_prefix(runs: Path) -> None:
    Backlog(runs).deliver()
    on_disk, stored = read_on_disk("mine", runs), read_sweep("mine", runs)
    assert on_disk is not None
    assert {name for name in stored.cells if "/" in name} == {name for name in on_disk.cells if "/" in name}
