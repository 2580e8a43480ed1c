"""The link that `permlab ui` prints, followed in a real browser with a fresh profile to a real MLflow server."""

import asyncio
import csv
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from permlab.platform.tracking.backlog import Backlog
from permlab.platform.tracking.store import connect
from permlab.platform.tracking.view import TAG
from tests.platform.browsing import CHROMIUM, chromium, visit
from tests.platform.calling import free_port, printed_link, start
from tests.platform.driving import drive

# The charts of the page: title, number of curves, and the texts of the bars.
CHARTS = """
JSON.stringify([...document.querySelectorAll(".js-plotly-plot")].map((plot) => ({
  metrics: [...new Set(plot.data.map((trace) => trace.metricKey))],
  curves: plot.data.filter((trace) => trace.type !== "bar" && trace.mode && (trace.y || []).length > 1 && trace.name)
                   .map((trace) => trace.name),
  bars: [...plot.querySelectorAll(".bartext")].map((node) => node.textContent),
})))
"""


@pytest.fixture
def swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a sweep was run and delivered."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    drive(tmp_path / "runs", "name=mine", "method=[sum,sort]", "d=[2,3]", "seed=[0,1]", "train.eval_every=1")
    assert Backlog(tmp_path / "runs").deliver().names
    return tmp_path


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: install chromium, as .ci/run does")
def test_the_printed_link_shows_curves_and_numbers_at_once(swept: Path) -> None:
    with (swept / "runs/sweeps/mine/results.csv").open() as file:
        rows = {
            (row["split"], row["metric"], row["method"], row["d"]): float(row["mean"]) for row in csv.DictReader(file)
        }
    dashboard = start(swept, "ui", "--port", str(free_port()))
    try:
        link = printed_link(dashboard, "mine")
        seen = asyncio.run(charts_at(link, swept / "profile"))
    finally:
        dashboard.send_signal(signal.SIGTERM)
        dashboard.communicate(timeout=60)
    assert "AUC, mean over seeds" in seen["text"]
    groups = {f"method: {method}, d: {d}" for method in ("sum", "sort") for d in (2, 3)}
    for place, split in enumerate(("holdout", "holdout_perm")):
        curves, bars = seen["charts"][place], seen["charts"][place + 2]
        assert groups <= {name.partition(" (")[0] for name in curves["curves"]}
        expected = sorted(mean for (part, metric, *_), mean in rows.items() if (part, metric) == (split, "auc"))
        assert len(expected) == 4
        assert sorted(map(float, bars["bars"])) == pytest.approx(expected, abs=0.0051)


async def charts_at(link: str, profile: Path) -> dict[str, Any]:
    """What stands on the page once four charts are drawn."""
    with chromium(profile) as address:
        async with visit(address, link, height=1200) as tab:
            await tab.until('document.querySelectorAll(".js-plotly-plot .bartext").length >= 8')
            await tab.until('document.querySelectorAll(".js-plotly-plot .scatterlayer .trace").length >= 8')
            text = await tab.run("document.body.innerText")
            return {"text": text, "charts": json.loads(await tab.run(CHARTS))}


def test_a_store_of_the_version_before_gets_the_view_when_it_is_compared(swept: Path) -> None:
    client = connect(swept / "runs")
    experiment = client.get_experiment_by_name("mine")
    view = experiment.tags[TAG]
    client.set_experiment_tag(experiment.experiment_id, TAG, "")
    assert Backlog(swept / "runs").deliver().names == []  # no run is sent again
    assert client.get_experiment_by_name("mine").tags[TAG] == view
