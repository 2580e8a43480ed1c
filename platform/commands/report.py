"""Write the report of a sweep: the paper's tables and figures beside ours, with tests.

  permlab report NAME                    into runs/sweeps/NAME/report
  permlab report NAME --out DIR

It reads what is stored in MLflow, whether the sweep is finished or not, counts it against the plan in the runs folder,
and is kept in MLflow with the sweep too.
"""

import argparse
from pathlib import Path

from permlab.platform.display.console import err, out, print_json, progress_bar
from permlab.platform.errors import ConfigError, RunError
from permlab.platform.files.json_files import read_json
from permlab.platform.settings.kinds import folder_name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a sweep")
    parser.add_argument("--out", metavar="DIR", help="folder of the report (default: runs/sweeps/NAME/report)")
    parser.add_argument("--runs", default="runs", help="the runs folder (default: runs)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    runs = Path(args.runs)
    folder = Path(args.out) if args.out else runs / "sweeps" / folder_name(args.name) / "report"
    counts = report(args.name, runs, folder)
    if args.json:
        print_json({"report": str(folder / "report.html")} | counts)
    else:
        out.print(f"{folder / 'report.html'}: {counts['finished']} of {counts['cells']} cells", markup=False)
    return 0


def report(name: str, runs: Path, folder: Path) -> dict[str, int]:
    """Read, write, and keep with the sweep; how many cells there are, are finished, and are finished on disk only."""
    from permlab.platform.report.on_disk import mark_undelivered, undelivered_line
    from permlab.platform.report.write import write_report
    from permlab.platform.tracking.read import keep_report, read_sweep

    try:
        sweep = read_sweep(name, runs)
    except ConfigError:
        if (runs / "sweeps" / name / "plan.json").exists():
            raise ConfigError(
                f"the sweep {name!r} is in {runs}, but not in MLflow; `permlab deliver` sends it"
            ) from None
        raise
    mark_undelivered(sweep, runs)
    if sweep.undelivered:
        err.print(undelivered_line(sweep), markup=False)
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
    return {"cells": len(sweep.cells), "finished": len(sweep.finished), "undelivered": sweep.undelivered}
