"""What the sweep machinery costs: cells that do nothing, and a small grid's time minus its cells' own time."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from permlab.platform.bench.growth import CLI, files_per_cell, measure_growth
from permlab.platform.bench.growth import show as show_growth
from permlab.platform.bench.machine import caption, facts
from permlab.platform.bench.settings import SweepBench
from permlab.platform.display.console import err, out
from permlab.platform.errors import RunError
from permlab.platform.files.json_files import read_json

GRID = ("method=[sum,sort,ordering]", "d=[1,10]", "seed=[0,1]")


def measure(bench: SweepBench) -> dict[str, Any]:
    document = {"bench": "sweep", "machine": facts(len(os.sched_getaffinity(0))), "settings": bench.model_dump()}
    with _own_tracking():
        growth = measure_growth(bench.cells)
        grid = _grid(bench) if bench.epochs else None
    return document | {"growth": growth, "grid": grid}


@contextlib.contextmanager
def _own_tracking() -> Iterator[None]:
    """Track to SQLite in the runs folder, whatever MLFLOW_TRACKING_URI says."""
    address = os.environ.pop("MLFLOW_TRACKING_URI", None)
    try:
        yield
    finally:
        if address is not None:
            os.environ["MLFLOW_TRACKING_URI"] = address


def _grid(bench: SweepBench) -> dict[str, Any]:
    """Time the whole command, in its own process."""
    from permlab.platform.display.build_bar import build_if_missing

    build_if_missing(bench.dataset)
    err.print("twelve cells that train …")
    with tempfile.TemporaryDirectory(prefix="permlab-bench-") as folder:
        words = ["sweep", f"dataset={bench.dataset}", *GRID, f"train.epochs={bench.epochs}", f"runs={folder}", "--json"]
        start = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", CLI, *words], capture_output=True, text=True)
        seconds = time.perf_counter() - start
        if done.returncode:
            error_lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise RunError(f"the grid failed: {error_lines[-1]}")
        results = [read_json(path) for path in Path(folder).glob("cells/*/result.json")]
        files = files_per_cell(Path(folder))
    cells_seconds = sum(result["seconds"] for result in results if result)
    at_once = len(os.sched_getaffinity(0))
    return {
        "cells": len(results),
        "seconds": seconds,
        "cells_seconds": cells_seconds,
        "at_once": at_once,
        "beyond_training": seconds - cells_seconds / at_once,
        "files_a_cell": files,
    }


def show(result: dict[str, Any]) -> None:
    if result["growth"]:
        show_growth(result["growth"])
    if grid := result["grid"]:
        out.print(
            f"{grid['cells']} cells of {result['settings']['epochs']} epochs on {result['settings']['dataset']}: "
            f"{grid['seconds']:.1f} s in all, {grid['cells_seconds']:.1f} s of training, {grid['at_once']} at a time; "
            f"{grid['beyond_training']:.1f} s of overhead, {grid['files_a_cell']} files per cell",
            markup=False,
        )
    out.print(caption(result["machine"]), markup=False)
