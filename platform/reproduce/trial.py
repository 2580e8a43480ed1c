"""One trial, in a worker: every cell of the grid with the same recipe, one after the other; the distance counts."""

import time
from pathlib import Path
from typing import Any

from permlab.platform.errors import Diverged, RunPruned
from permlab.platform.files.json_files import write_json
from permlab.platform.large_imports import large_imports
from permlab.platform.reproduce.distance import distance, misses
from permlab.platform.settings.run import RunSettings, Settings, cell_folder, cell_key
from permlab.platform.sweep.plan import manifest_of
from permlab.platform.tuning.trial_task import HEAVY, OBJECTIVE, Steps

CELLS = "cells.json"  # in the trial's folder: what each cell missed


class FitJob(Settings):
    """What a worker needs to know. `folder` is relative to the runs folder; the cells are in the tuning's folder."""

    name: str
    cells: list[RunSettings]
    runs: str
    folder: str

    @property
    def dataset(self) -> str:
        return self.cells[0].dataset

    @property
    def splits_file(self) -> str | None:
        return self.cells[0].splits_file

    @property
    def codes(self) -> list[str]:
        return []


def run_fit_trial(job: FitJob) -> dict[str, Any]:
    """A step is a cell: the driver hears the distance over the cells so far, and may prune. All trials have the same
    cells in the same order. A cell that is done, also by another trial, is not run again.
    """
    with large_imports():
        from permlab.platform.run.cell import run_cell

    folder = Path(job.runs) / job.folder
    folder.mkdir(parents=True, exist_ok=True)
    runs, digest = str(folder.parent.parent), manifest_of(job.dataset).digest
    steps, started = Steps(job.name, folder), time.perf_counter()
    rows: list[dict[str, Any]] = []
    result: dict[str, Any] = {}
    try:
        for number, planned in enumerate(job.cells, start=1):
            cell = planned.model_copy(update={"runs": runs})
            try:
                measured = run_cell(cell)["metrics"]["train"]
            except Diverged:
                measured = None
            for name in HEAVY:
                (cell_folder(cell, cell_key(cell, digest)) / name).unlink(missing_ok=True)
            missed = misses(cell.dataset, cell.method, cell.d, "train", measured)
            rows.append({"method": cell.method, "d": cell.d, "seed": cell.seed, "train": measured, "missed": missed})
            write_json(folder / CELLS, {"cells": rows})
            so_far = distance(row["missed"] for row in rows)
            steps.show({"epoch": number, "train/distance": so_far})
            steps.report({"epoch": number, OBJECTIVE: so_far})
            if number < len(job.cells):
                steps.hear()
        result = {"value": so_far}
    except RunPruned:
        pass
    return result | {"epochs": len(rows), "seconds": time.perf_counter() - started}
