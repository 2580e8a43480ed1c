"""Write the report of a sweep: the paper's tables and figures beside ours, with tests.

  permlab report NAME                    into runs/sweeps/NAME/report
  permlab report NAME --out DIR

It reads what is stored in MLflow, whether the sweep is finished or not, and is kept there with the sweep too.
"""

import argparse
from pathlib import Path

from permlab.platform.console import err, out, print_json, progress_bar
from permlab.platform.errors import ConfigError, RunError
from permlab.platform.json_files import read_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a sweep")
    parser.add_argument("--out", metavar="DIR", help="folder of the report (default: runs/sweeps/NAME/report)")
    parser.add_argument("--runs", default="runs", help="the runs folder (default: runs)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    runs = Path(args.runs)
    folder = Path(args.out) if args.out else runs / "sweeps" / args.name / "report"
    finished, planned = report(args.name, runs, folder)
    if args.json:
        print_json({"report": str(folder / "report.html"), "cells": planned, "finished": finished})
    else:
        out.print(f"{folder / 'report.html'}: {finished} of {planned} cells", markup=False)
    return 0


def report(name: str, runs: Path, folder: Path) -> tuple[int, int]:
    """Read, write, and keep with the sweep; how many cells are finished, and how many there are."""
    from permlab.platform.report.write import write_report
    from permlab.platform.tracking_read import keep_report, read_sweep

    sweep = read_sweep(name, runs)
    sweep.speed = read_json(runs / "bench" / "train.json")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with progress_bar("drawing", "figures") as progress:
            write_report(sweep, folder, progress)
    except OSError as error:
        raise ConfigError(f"--out {folder} cannot hold a report: {error.strerror}") from None
    try:
        keep_report(folder, sweep, runs)
    except RunError as error:
        err.print(f"the report is written but not in MLflow: {error}", markup=False)
    return len(sweep.finished), len(sweep.cells)
