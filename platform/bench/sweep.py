"""What the machinery costs a cell: cells that do nothing, through plan, Ray, tracking to SQLite and table."""

import contextlib
import io
import os
import tempfile
import time
from typing import Any

from permlab.platform.bench.settings import SweepBench
from permlab.platform.console import err, out
from permlab.platform.grid import SweepSettings


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
    from permlab.platform.building import build_if_missing
    from permlab.platform.commands.sweep import sweep

    with tempfile.TemporaryDirectory(prefix="permlab-bench-") as folder:
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        settings = SweepSettings(
            name="no-op", dataset=["synthetic"], method=["sum"], d=[1], seed=list(range(bench.cells)), runs=folder
        )
        build_if_missing("synthetic")
        err.print(f"{bench.cells} cells that do nothing …")
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = sweep(settings, None, runner=no_op, as_json=True)
        seconds = time.perf_counter() - start
    return {
        "bench": "sweep",
        "cells": bench.cells,
        "exit_code": code,
        "seconds": seconds,
        "ms_a_cell": 1000 * seconds / bench.cells,
    }


def show(result: dict[str, Any]) -> None:
    out.print(
        f"{result['cells']:,} cells that do nothing: {result['seconds']:.1f} s in all, "
        f"{result['ms_a_cell']:.0f} ms a cell (plan, Ray, tracking to SQLite, table)"
    )
