"""Write the report of a sweep: the paper's tables and figures beside ours, with tests.

  permlab report NAME                    into runs/sweeps/NAME/report
  permlab report NAME --out DIR

It reads the runs folder if the whole sweep lies there, else what is stored in MLflow, whether the sweep is finished or
not, counts it against the plan in the runs folder, and is kept in MLflow with a sweep that is tracked.
"""

import argparse
from pathlib import Path

from permlab.platform.display.console import out, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a sweep")
    parser.add_argument("--out", metavar="DIR", help="folder of the report (default: runs/sweeps/NAME/report)")
    parser.add_argument("--runs", default="runs", help="the runs folder (default: runs)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    from permlab.platform.report.make import make_report
    from permlab.platform.report.read import read_stored

    runs = Path(args.runs)
    sweep = read_stored(args.name, runs)
    page = make_report(sweep, runs, Path(args.out) if args.out else None)
    counts = {"cells": len(sweep.cells), "finished": len(sweep.finished), "undelivered": sweep.undelivered}
    if args.json:
        print_json({"report": str(page), "read_from": sweep.place} | counts)
    else:
        said = f"{counts['finished']} of {counts['cells']} cells, read from {sweep.place}"
        out.print(f"{page}: {said}", markup=False)
    return 0
