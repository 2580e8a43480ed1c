"""What a sweep writes when it ends: results.md, results.csv, cells.csv, in the order of the grid."""

from pathlib import Path
from typing import Any

import pandas as pd

from permlab.platform.report.results import results_table, write_results
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.sweep.plan import Cell

GRID = SweepSettings(method=["sum", "identity", "ordering"], d=[10, 1], seed=[1, 0])


def result(seed: int, lost: float) -> dict[str, Any]:
    metrics = {"auc": 0.8 + 0.01 * seed, "loss": 0.5}
    permuted = metrics | {"auc": metrics["auc"] - lost}
    return {"epochs": 30, "seconds": 2.0, "parameters": 7, "metrics": {"holdout": metrics, "holdout_perm": permuted}}


def cells(lost: float = 0.0) -> list[Cell]:
    """In the order of the grid; the last one has not finished."""
    made = [
        Cell(run, run.name, 1.0, result(run.seed, lost if run.method == "identity" else 0.0)) for run in GRID.cells()
    ]
    made[-1].result = None
    return made


def test_rows_are_in_the_order_of_the_grid(tmp_path: Path) -> None:
    write_results(cells(), tmp_path)
    grid = [(method, d) for method in GRID.method for d in GRID.d]
    lines = [line.split("|") for line in (tmp_path / "results.md").read_text().splitlines()[2:8]]
    assert [(line[3].strip(), int(line[2])) for line in lines] == grid
    for name in ("results.csv", "cells.csv"):
        table = pd.read_csv(tmp_path / name)
        assert list(dict.fromkeys(zip(table["method"], table["d"], strict=True))) == grid


def test_every_cell_has_a_row_with_its_metrics(tmp_path: Path) -> None:
    write_results(cells(), tmp_path)
    table = pd.read_csv(tmp_path / "cells.csv")
    assert len(table) == 12 and table["finished"].sum() == 11
    first, last = table.iloc[0], table.iloc[-1]
    assert (first["key"], first["seed"], first["seconds"], first["holdout/auc"]) == ("sum-d10-s1", 1, 2.0, 0.81)
    assert pd.isna(last["holdout/auc"]) and not last["finished"]
    means = pd.read_csv(tmp_path / "results.csv").set_index(["method", "d", "split", "metric"])["mean"]
    assert (
        means["sum", 10, "holdout", "auc"]
        == table[(table["method"] == "sum") & (table["d"] == 10)]["holdout/auc"].mean()
    )


def test_a_permuted_column_that_repeats_the_holdout_is_one_sentence(tmp_path: Path) -> None:
    write_results(cells(), tmp_path)
    folded = (tmp_path / "results.md").read_text()
    assert "perm AUC" not in folded and "With permuted nodes (holdout_perm) every AUC is the same" in folded
    assert len(results_table(cells()).columns) == 6
    write_results(cells(lost=0.1), tmp_path)
    shown = (tmp_path / "results.md").read_text()
    assert "perm AUC" in shown and "is the same" not in shown


def test_training_graphs_are_shown_if_nothing_else_was_measured(tmp_path: Path) -> None:
    made = cells()
    for cell in made[:-1]:
        assert cell.result
        cell.result["metrics"] = {"train": {"auc": 0.9, "loss": 0.5}}
    write_results(made, tmp_path)
    lines = (tmp_path / "results.md").read_text().splitlines()
    assert "train AUC" in lines[0] and lines[2].count("0.900") == 1
