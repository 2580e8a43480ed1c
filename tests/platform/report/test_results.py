"""The tables that a sweep leaves beside its cells."""

from pathlib import Path

import pandas as pd

from permlab.platform.report.results import write_results
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import read_settings
from permlab.platform.sweep.plan import Cell


def test_cells_csv_has_one_row_per_cell_in_the_order_of_the_grid(tmp_path: Path) -> None:
    grid = read_settings(SweepSettings, ["method=[sum,sort]", "d=3", "seed=[0,1]"]).cells()
    metrics = {"train": {"auc": 0.9}, "holdout": {"auc": 0.75}}
    result = {"metrics": metrics, "epochs": 7, "seconds": 2.0, "parameters": 11}
    cells = [Cell(settings, f"k{i}", 1.0, result if i else None) for i, settings in enumerate(grid)]
    write_results(cells, tmp_path)
    rows = pd.read_csv(tmp_path / "cells.csv")
    assert list(zip(rows["method"], rows["seed"], strict=True)) == [("sum", 0), ("sum", 1), ("sort", 0), ("sort", 1)]
    assert rows["finished"].tolist() == [False, True, True, True]
    assert rows["holdout/auc"].tolist()[1:] == [0.75] * 3 and rows["holdout/auc"].isna()[0]
    assert rows["epochs"].tolist()[1:] == [7] * 3 and rows["key"][3] == "k3"
    table = (tmp_path / "results.md").read_text().splitlines()
    assert "sum" in table[2] and "sort" in table[3]
