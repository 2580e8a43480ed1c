"""Deliver to MLflow the runs on disk that it does not have, because it could not be reached or lost them.

permlab deliver            everything in runs/
permlab deliver runs=DIR
"""

import argparse
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from permlab.platform.display.console import err, out, print_json, progress_bar
from permlab.platform.errors import ConfigError
from permlab.platform.settings.folders import runs_folder

if TYPE_CHECKING:
    from permlab.platform.tracking.backlog import Delivered


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="runs=DIR", help="the runs folder (default: runs)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    folder = Path("runs")
    for word in args.words:
        key, _, value = word.partition("=")
        if key != "runs" or not value:
            raise ConfigError(f"unknown setting {word!r}: choose from runs=DIR")
        folder = runs_folder(value)
    delivered = deliver_all(folder)
    for name in delivered.busy:
        err.print(f"{name} is being delivered by another process", markup=False)
    for damage in delivered.damaged.values():
        err.print(f"{damage}; run this cell again", markup=False)
    if args.json:
        print_json({"delivered": delivered.names, "damaged": [str(path) for path in delivered.damaged]})
    else:
        runs = "run" if len(delivered.names) == 1 else "runs"
        out.print(
            f"{len(delivered.names)} {runs} delivered" if delivered.names else "nothing was waiting", markup=False
        )
    return 1 if delivered.damaged else 0


def deliver_all(runs: Path) -> "Delivered":
    """Compare every ended run and sweep with the tracking store, and deliver what the store lacks."""
    from permlab.platform.tracking.backlog import Backlog, Delivered
    from permlab.platform.tracking.store import store_errors, tracking_uri

    if not runs.exists():
        return Delivered()
    with store_errors(tracking_uri(runs)), progress_bar("delivering", "runs") as report:
        done = count(1)
        return Backlog(runs).deliver(lambda: report(next(done), None))
