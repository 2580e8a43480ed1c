"""Write the report of a sweep: our tables and figures next to the paper's, with tests.

  permlab report NAME                    into runs/sweeps/NAME/report
  permlab report NAME --out DIR
  permlab report NAME --league docs      its league only: docs/league.md, docs/league.png, docs/data/league.csv
  permlab report docs/data/league.csv --league docs    the same again from the stored cells

The sweep need not be finished. It is read from the runs folder if it is all there, else from MLflow, and counted
against the plan in the runs folder. The report of a tracked sweep is also stored in MLflow.
"""

import argparse
from pathlib import Path

from permlab.platform.display.console import out, print_json
from permlab.platform.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a sweep; with --league also a league.csv")
    parser.add_argument("--out", metavar="DIR", help="folder of the report (default: runs/sweeps/NAME/report)")
    parser.add_argument("--league", metavar="DIR", help="write only the league, into this folder")
    parser.add_argument("--runs", default="runs", help="the runs folder (default: runs)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    from permlab.platform.report.league_cells import read_cells
    from permlab.platform.report.make import make_league, make_report
    from permlab.platform.report.read import read_stored

    if args.league and args.out:
        raise ConfigError("--out is the folder of the report, which --league does not write: leave one of them out")
    runs = Path(args.runs)
    sweep = read_cells(Path(args.name)) if args.league and args.name.endswith(".csv") else read_stored(args.name, runs)
    if args.league:
        page = make_league(sweep, Path(args.league))
    else:
        page = make_report(sweep, runs, Path(args.out) if args.out else None)
    counts = {"cells": len(sweep.cells), "finished": len(sweep.finished), "undelivered": sweep.undelivered}
    if args.json:
        print_json({"report": str(page), "read_from": sweep.place} | counts)
    else:
        summary = f"{counts['finished']} of {counts['cells']} cells, read from {sweep.place}"
        out.print(f"{page}: {summary}", markup=False)
    return 0
