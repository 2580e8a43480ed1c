"""The link that `permlab ui` prints, followed in a real browser with a fresh profile to a real MLflow server."""

import asyncio
import signal
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from permlab.platform.tracking.backlog import Backlog
from permlab.platform.tracking.store import connect
from permlab.platform.tracking.sweep_delivery import read_plan
from permlab.platform.tracking.view import SWEEP, TAG
from tests.platform.browsing import CHROMIUM
from tests.platform.calling import free_port, printed_link, start
from tests.platform.dashboard import charts_at
from tests.platform.driving import drive


@pytest.fixture
def swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a sweep was run and delivered."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    drive(tmp_path / "runs", "name=mine", "method=[sum,sort]", "d=[2,3]", "seed=[0,1]", "train.eval_every=1")
    assert Backlog(tmp_path / "runs").deliver().names
    return tmp_path


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: install chromium, as .ci/run does")
def test_the_printed_link_shows_curves_and_numbers_at_once(swept: Path) -> None:
    dashboard = start(swept, "ui", "--port", str(free_port()))
    try:
        link = printed_link(dashboard, "mine")
        seen = asyncio.run(charts_at(link, swept / "profile", 8, 8))
    finally:
        dashboard.send_signal(signal.SIGTERM)
        dashboard.communicate(timeout=60)
    assert "AUC, mean over seeds" in seen["text"]
    histories = pyarrow.parquet.read_table(swept / "runs/sweeps/mine/histories.parquet").to_pandas()
    plan = {cell["key"]: (cell["method"], cell["d"]) for cell in read_plan(swept / "runs/sweeps/mine")}
    means = histories.groupby([histories["key"].astype(str).map(plan), "epoch"]).mean(numeric_only=True)
    for place, split in enumerate(("holdout/auc", "holdout_perm/auc")):
        expected = [list(curve) for _, curve in means[split].groupby(level=0)]
        assert len(expected) == 4 and {len(curve) for curve in expected} == {2}
        drawn = seen["charts"][place]["curves"]
        assert {metric for metric, _ in drawn} == {split}
        assert np.sort([values for _, values in drawn], axis=0) == pytest.approx(np.sort(expected, axis=0), abs=1e-5)
        bars = seen["charts"][place + 2]["bars"]
        assert sorted(bars) == pytest.approx(sorted(curve[-1] for curve in expected), abs=0.0051)
    for method, d in set(plan.values()):
        assert f"method: {method}, d: {d} (holdout/auc)" in seen["text"]


def test_a_store_of_the_version_before_gets_the_view_when_it_is_compared(swept: Path) -> None:
    client = connect(swept / "runs")
    experiment = client.get_experiment_by_name("mine")
    view = experiment.tags[TAG + SWEEP]
    client.set_experiment_tag(experiment.experiment_id, TAG + SWEEP, "")
    assert Backlog(swept / "runs").deliver().names == []  # no run is sent again
    assert client.get_experiment_by_name("mine").tags[TAG + SWEEP] == view
