"""The report's section about tuning, from what a store holds."""

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from permlab.platform.report.blocks import Entry, Figure, Table
from permlab.platform.report.stored import StoredSweep, StoredTuning
from permlab.platform.report.tuning import tuning_section

SPACE = {"train.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}, "train.batch_size": {"choices": [64, 128]}}


def trial(number: int, state: str, value: float | None, rate: float, batch: int) -> dict[str, Any]:
    values = {"train.learning_rate": rate, "train.batch_size": batch}
    return {"number": number, "state": state, "value": value, "values": values, "steps": {"5": 0.6, "10": 0.7}}


STUDY = {
    "study": "t/proteins_full/sum/d10",
    "dataset": "proteins_full",
    "method": "sum",
    "d": 10,
    "metric": "auc",
    "maximise": True,
    "finished": 3,
    "pruned": 1,
    "epochs_saved": 0.25,
    "space": SPACE,
    "importances": {"train.learning_rate": 0.75, "train.batch_size": 0.25},
    "trials": [
        trial(0, "COMPLETE", 0.8, 1e-3, 128),
        trial(1, "PRUNED", None, 1e-4, 64),
        trial(2, "COMPLETE", 0.85, 1e-2, 64),
    ],
}
CHOICE = {"study": STUDY["study"], "trial": 2, "dataset": "proteins_full", "method": "sum", "d": 10}


def sweep(aucs: list[float], tuning: StoredTuning | None = None) -> StoredSweep:
    facts = {
        "dataset": "proteins_full",
        "method": "sum",
        "d": 10,
        "status": "FINISHED",
        "params": {"data.split_seed": "0"},
    }
    cells = pd.DataFrame([facts | {"seed": seed, "holdout/auc": auc} for seed, auc in enumerate(aucs)])
    return StoredSweep("t", "FINISHED", "sqlite", "", cells, pd.DataFrame(), tuning=tuning)


def section(tuned: list[float], default: list[float]) -> Any:
    chosen = [CHOICE | {"settings": STUDY["trials"][2]["values"]}]  # type: ignore[index]
    tuning = StoredTuning(chosen, [STUDY], sweep(default))
    return tuning_section(SimpleNamespace(sweep=sweep(tuned, tuning)))  # type: ignore[arg-type]


def test_a_sweep_without_tuning_has_no_such_section() -> None:
    assert tuning_section(SimpleNamespace(sweep=sweep([0.8]))) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tuned", "verdict"),
    [([0.86, 0.87, 0.88], "better"), ([0.70, 0.71, 0.72], "worse"), ([0.5, 0.81, 0.9], "not significant")],
)
def test_the_gain_on_the_holdout_is_judged(tuned: list[float], verdict: str) -> None:
    tables = {table.title: table for table in section(tuned, [0.79, 0.80, 0.82]).tables}
    (row,) = next(table for title, table in tables.items() if "against default (" in title).rows
    assert isinstance(row[-1], Entry) and row[-1].note == verdict and row[3] == "3"
    assert row[-1].text.startswith(f"{sum(tuned) / 3 - 0.80333:+.3f}"[:5])


def test_validation_importances_history_and_coordinates() -> None:
    tuned = section([0.86, 0.87], [0.8, 0.8])
    tables = [block for block in tuned.blocks if isinstance(block, Table)]
    assert tables[0].rows == [
        ["sum", "PROTEINS_full, d = 10", "3", "1", "25%", "AUC", "0.8000", "0.8500 (trial 2)"],
    ]
    assert tables[-1].rows[0][2:] == ["75%", "25%"]
    history, coordinates = (block for block in tuned.blocks if isinstance(block, Figure))
    points, best, pruned = history.panels[0].series
    assert (points.x, best.y, pruned.y) == ([0.0, 2.0], [0.8, 0.85], [0.7]) and pruned.hollow
    first, second = coordinates.panels[0].series  # the best first
    assert first.y == pytest.approx([1.0, 0.0, 1.0]) and second.y == pytest.approx([0.5, 1.0, 0.0])
