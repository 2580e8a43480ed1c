"""`import permlab`: the commands as functions that return objects; each test in a fresh process."""

import subprocess
import sys
from pathlib import Path

import pytest

PREPARE = """
import sys
import permlab
heavy = {"torch", "pandas", "mlflow", "ray", "optuna", "pytorch_lightning"} & set(sys.modules)
assert not heavy, heavy
data = "synthetic,graphs=90,max_nodes=8,task=classification"
quick = {"dataset": data, "d": 2, "track": False, "train": {"epochs": 2}, "train.engine": "plain"}
"""

ONE_RUN = """
import torch
from permlab.datasets.store import GraphStore

result = permlab.train(**quick, method="sort", **{"model.hidden": 8})
assert result.settings.method == "sort" and result.settings.model.hidden == 8 and result.settings.train.epochs == 2
assert set(result.metrics) == {"train", "holdout", "holdout_perm"} and 0 <= result.metrics["holdout"]["auc"] <= 1
assert result.frame().loc["holdout", "auc"] == result.metrics["holdout"]["auc"]
assert result.history["epoch"].tolist() == [1, 2] and result.folder.parent.name == "cells"
assert not result.model.training
stored = result.predictions[result.predictions["split"] == "train"].head(3)
store = GraphStore.open(data)
graphs = [list(store.graph_id).index(number) for number in stored["graph_id"]]
with torch.no_grad():
    output = result.model(store.batch(graphs))
expected = torch.tensor(stored["prediction"].to_numpy()).double()
assert torch.allclose(output.double().flatten(), expected, atol=1e-5), output
again = permlab.train(result.settings)
assert again.folder == result.folder and again.metrics == result.metrics
try:
    permlab.train(method="sorrt", **{"train.epochs": 0})
    raise AssertionError("a wrong setting was taken")
except permlab.ConfigError as error:
    assert "sorrt" in str(error) and "train.epochs=0" in str(error) and "\\n" not in str(error)
certificate = permlab.certify("ordering", n=3, d=2, key="spark", samples=200, steps=20)
assert certificate.universality.universal and certificate.collision is None
"""

STORED = """
sweep = permlab.read("prepared", runs="runs")
table = sweep.frame()
assert sweep.read_from == "the runs folder" and len(table) == 4 and set(table["status"]) == {"FINISHED"}
assert {"dataset", "method", "d", "seed", "holdout/auc", "cost/seconds"} <= set(table.columns)
best = max(sweep.results, key=lambda result: result.metrics["holdout"]["auc"])
assert best.metrics["holdout"]["auc"] == table["holdout/auc"].max() and len(best.history) == 2
assert "read from the runs folder" in sweep.report("report").read_text()
assert permlab.report("prepared").name == "report.html"
try:
    permlab.read("nothing")
    raise AssertionError("there is no such sweep")
except permlab.ConfigError as error:
    assert "nothing" in str(error)
"""

ON_RAY = """
sweep = permlab.sweep(**quick, name="four", method=("sum", "sort"), seed=range(2))
table = sweep.frame()
assert table.groupby("method")["seed"].apply(sorted).to_dict() == {"sort": [0, 1], "sum": [0, 1]}
assert permlab.read("four").frame().equals(table) and sweep.report().exists()
tuning = permlab.tune(**quick, name="search", method="sum", tune={"trials": 2})
assert len(tuning.frame()) == 2 and tuning.best[0].method == "sum"
"""


def run(folder: Path, *parts: str) -> None:
    """Run in a fresh process, which must print nothing: without a terminal there are no progress bars."""
    done = subprocess.run([sys.executable, "-c", "".join(parts)], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "")


def test_one_run_is_an_object(tmp_path: Path) -> None:
    run(tmp_path, PREPARE, ONE_RUN)


def test_a_sweep_is_read_from_the_runs_folder_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.platform.driving import drive

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    drive(tmp_path / "runs", "name=prepared", "method=[sum,sort]", "seed=[0,1]", "track=false")
    run(tmp_path, PREPARE, STORED)
    assert not (tmp_path / "runs" / "mlflow.db").exists()


@pytest.mark.ray
def test_a_sweep_and_a_tuning_on_ray(tmp_path: Path, one_ray: None) -> None:
    run(tmp_path, PREPARE, ON_RAY)
