"""What the machinery costs: cells that do nothing, and the wall-clock of a small grid beside its cells' own time."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from permlab.platform.bench.machine import caption, facts
from permlab.platform.bench.settings import SweepBench
from permlab.platform.console import err, out
from permlab.platform.errors import RunError
from permlab.platform.grid import SweepSettings
from permlab.platform.json_files import read_json

CLI = "import sys; from permlab.platform.cli import main; sys.exit(main(sys.argv[1:]))"
GRID = ("method=[sum,sort,ordering]", "d=[1,10]", "seed=[0,1]")


def no_op(settings: Any) -> dict[str, Any]:
    """A cell that is recorded as any other, but trains nothing."""
    from permlab.datasets.store import GraphStore
    from permlab.platform.json_files import write_json
    from permlab.platform.record import FINISHED, Record

    record = Record(settings, GraphStore.open(settings.dataset).manifest)
    record.folder.mkdir(parents=True, exist_ok=True)
    record.start()
    metrics = {split: {"loss": 1.0, "mae": 1.0} for split in ("train", "holdout", "holdout_perm")}
    names = ("dataset", "method", "d", "seed")
    result = {name: getattr(settings, name) for name in names} | {"epochs": 1, "seconds": 0.0, "metrics": metrics}
    record.epochs([{"epoch": 1, "train/mae": 1.0, "holdout/mae": 1.0, "holdout_perm/mae": 1.0}])
    result |= {"key": record.key, "status": FINISHED, "parameters": 0, "ended": time.time()}
    write_json(record.folder / "result.json", result)
    return result


def measure(bench: SweepBench) -> dict[str, Any]:
    document = {"bench": "sweep", "machine": facts(len(os.sched_getaffinity(0))), "settings": bench.model_dump()}
    with _own_tracking():
        empty = _empty_cells(bench.cells) if bench.cells else None
        grid = _grid(bench) if bench.epochs else None
    return document | {"empty": empty, "grid": grid}


@contextlib.contextmanager
def _own_tracking() -> Iterator[None]:
    """SQLite in the runs folder, wherever MLflow's server is."""
    address = os.environ.pop("MLFLOW_TRACKING_URI", None)
    try:
        yield
    finally:
        if address is not None:
            os.environ["MLFLOW_TRACKING_URI"] = address


def _empty_cells(cells: int) -> dict[str, Any]:
    from permlab.platform.building import build_if_missing
    from permlab.platform.commands.sweep import sweep

    build_if_missing("synthetic")
    err.print(f"{cells:,} cells that do nothing …")
    with tempfile.TemporaryDirectory(prefix="permlab-bench-") as folder:
        seeds = list(range(cells))
        settings = SweepSettings(name="no-op", dataset=["synthetic"], method=["sum"], d=[1], seed=seeds, runs=folder)
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = sweep(settings, None, runner=no_op, as_json=True)
        seconds = time.perf_counter() - start
    if code:
        raise RunError(f"the sweep of empty cells ended with exit code {code}")
    return {"cells": cells, "seconds": seconds, "ms_a_cell": 1000 * seconds / cells}


def _grid(bench: SweepBench) -> dict[str, Any]:
    """The whole command, from its start to its end, as a process of its own."""
    from permlab.platform.building import build_if_missing

    build_if_missing(bench.dataset)
    err.print("twelve cells that train …")
    with tempfile.TemporaryDirectory(prefix="permlab-bench-") as folder:
        words = ["sweep", f"dataset={bench.dataset}", *GRID, f"train.epochs={bench.epochs}", f"runs={folder}", "--json"]
        start = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", CLI, *words], capture_output=True, text=True)
        seconds = time.perf_counter() - start
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise RunError(f"the grid failed: {said[-1]}")
        results = [read_json(path) for path in Path(folder).glob("cells/*/result.json")]
    own = sum(result["seconds"] for result in results if result)
    at_once = len(os.sched_getaffinity(0))
    return {
        "cells": len(results),
        "seconds": seconds,
        "cells_seconds": own,
        "at_once": at_once,
        "beyond_training": seconds - own / at_once,
    }


def show(result: dict[str, Any]) -> None:
    if empty := result["empty"]:
        out.print(
            f"{empty['cells']:,} cells that do nothing: {empty['seconds']:.1f} s in all, {empty['ms_a_cell']:.0f} ms a "
            "cell (plan, Ray, tracking to SQLite, table)"
        )
    if grid := result["grid"]:
        out.print(
            f"{grid['cells']} cells of {result['settings']['epochs']} epochs on {result['settings']['dataset']}: "
            f"{grid['seconds']:.1f} s in all, {grid['cells_seconds']:.1f} s of training, {grid['at_once']} at a time: "
            f"{grid['beyond_training']:.1f} s beyond it",
            markup=False,
        )
    out.print(caption(result["machine"]), markup=False)
