"""A stored sweep, as a Python caller sees it."""

from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd

from permlab.platform.display.console import notes_logged
from permlab.platform.report.stored import SPLITS, StoredSweep
from permlab.platform.results.run import Result

FACTS = ["name", "dataset", "method", "d", "seed", "status", "error"]


@dataclass(frozen=True)
class Sweep:
    """The cells of a sweep, finished or not."""

    name: str
    read_from: str
    stored: StoredSweep = field(repr=False)
    runs: Path = field(repr=False)

    def frame(self) -> pd.DataFrame:
        """One row per cell: its settings, its status, its final metrics as split/metric, and its cost."""
        cells = self.stored.cells
        measured = [name for name in cells.columns if "/" in name and "running" not in name]
        return cells[FACTS + measured].copy()

    @cached_property
    def results(self) -> list[Result]:
        """The finished cells, in the order of the plan."""
        return [self._result(row) for row in self.stored.finished.to_dict("records")]

    def report(self, folder: str | Path | None = None) -> Path:
        """Write the report, by default to runs/sweeps/NAME/report; returns its page."""
        from permlab.platform.report.make import make_report

        with notes_logged():
            return make_report(self.stored, self.runs, Path(folder) if folder else None)

    def _result(self, row: dict[str, Any]) -> Result:
        metrics: dict[str, dict[str, float | None]] = {}
        for name, value in row.items():
            split, _, metric = str(name).partition("/")
            if split in SPLITS and "running" not in metric and not pd.isna(value):
                metrics.setdefault(split, {})[metric] = float(value)
        return Result(row["name"], metrics, partial(_locate, row["key"], row["run_id"], self.runs))


def _locate(key: str, run_id: str, runs: Path) -> Path:
    folder = runs / "cells" / key
    if (folder / "result.json").exists() or not run_id:
        return folder
    from permlab.platform.tracking.read import download_artifacts

    return download_artifacts(run_id, runs)
