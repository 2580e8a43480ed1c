"""What a sweep costs as it grows: thousands of cells that do nothing, then `permlab status` and `report`."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from permlab.platform.bench.process_memory import peak_resident
from permlab.platform.bench.tables import new_table, print_table
from permlab.platform.display.console import err, out
from permlab.platform.errors import RunError
from permlab.platform.files.json_files import read_json
from permlab.platform.settings.sweep import SweepSettings

CLI = "import sys; from permlab.platform.cli import main; sys.exit(main(sys.argv[1:]))"
DRIVER = "import sys; from permlab.platform.bench.growth import drive; sys.exit(drive(int(sys.argv[1]), sys.argv[2]))"
COURIER = "permlab.platform.tracking.courier_process"
NAME = "no-op"


def no_op(settings: Any) -> dict[str, Any]:
    """A cell that is recorded like any other but trains nothing."""
    from permlab.datasets.store import GraphStore
    from permlab.platform.files.json_files import write_json
    from permlab.platform.run.record import FINISHED, Record

    record = Record(settings, GraphStore.open(settings.dataset))
    record.folder.mkdir(parents=True, exist_ok=True)
    record.start()
    metrics = {split: {"loss": 1.0, "mae": 1.0} for split in ("train", "holdout", "holdout_perm")}
    names = ("dataset", "method", "d", "seed")
    result = {name: getattr(settings, name) for name in names} | {"epochs": 1, "seconds": 0.0, "metrics": metrics}
    record.epochs([{"epoch": 1, "train/mae": 1.0, "holdout/mae": 1.0, "holdout_perm/mae": 1.0}])
    result |= {"key": record.key, "status": FINISHED, "parameters": 0, "ended": time.time()}
    write_json(record.folder / "result.json", result)
    return result


def drive(cells: int, folder: str) -> int:
    """Run the sweep; called in its own process."""
    from permlab.platform.sweep.drive import run_sweep

    grid = {"dataset": ["synthetic"], "method": ["sum"], "d": [1], "seed": list(range(cells))}
    return run_sweep(SweepSettings(name=NAME, runs=folder, **grid), None, runner=no_op).ended.code


def measure_growth(sizes: list[int]) -> list[dict[str, Any]]:
    from permlab.platform.display.build_bar import build_if_missing

    if sizes:
        build_if_missing("synthetic")
    return [_measure(cells) for cells in sizes]


def _measure(cells: int) -> dict[str, Any]:
    err.print(f"{cells:,} cells that do nothing …")
    with tempfile.TemporaryDirectory(prefix="permlab-bench-") as folder:
        start = time.perf_counter()
        driver, courier = peak_resident([sys.executable, "-c", DRIVER, str(cells), folder], COURIER)
        seconds = time.perf_counter() - start
        facts = {"cells": cells, "seconds": seconds, "ms_a_cell": 1000 * seconds / cells}
        facts |= {"driver_mb": driver, "courier_mb": courier}
        facts |= {f"{verb}_seconds": _call(verb, NAME, "--runs", folder) for verb in ("status", "report")}
        status = (read_json(Path(folder) / "sweeps" / NAME / "sweep.json") or {}).get("status")
        if status != "FINISHED":
            raise RunError(f"the sweep of cells that do nothing ended as {status}, not as FINISHED")
        return facts | {"files_a_cell": files_per_cell(Path(folder))}


def _call(*words: str) -> float:
    """Seconds that the whole command takes."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", CLI, *words], capture_output=True, text=True)
    if done.returncode:
        error_lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RunError(f"permlab {words[0]} failed: {error_lines[-1]}")
    return time.perf_counter() - start


def files_per_cell(runs: Path) -> int:
    """The largest number of files in any cell's folder."""
    return max(sum(path.is_file() for path in folder.iterdir()) for folder in (runs / "cells").iterdir())


def show(growth: list[dict[str, Any]]) -> None:
    columns = ("cells", "s", "ms per cell", "driver, MB", "courier, MB", "status, s", "report, s", "files per cell")
    table = new_table([], columns)
    for facts in growth:
        numbers = [f"{facts['cells']:,}", f"{facts['seconds']:.1f}", f"{facts['ms_a_cell']:.1f}"]
        numbers += [f"{facts[name]:.0f}" for name in ("driver_mb", "courier_mb")]
        numbers += [f"{facts[name]:.1f}" for name in ("status_seconds", "report_seconds")]
        table.add_row(*numbers, str(facts["files_a_cell"]))
    out.print("Cells that do nothing (plan, Ray, tracking to SQLite, table); MB: peak resident memory")
    print_table(table)
