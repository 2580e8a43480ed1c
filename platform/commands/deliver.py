"""Deliver to MLflow what runs recorded while the tracking server could not be reached.

permlab deliver            everything in runs/
permlab deliver runs=DIR
"""

import argparse
from pathlib import Path

from permlab.platform.console import out, print_json, progress_bar
from permlab.platform.errors import ConfigError, RunError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="runs=DIR", help="the runs folder (default: runs)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    folder = Path("runs")
    for word in args.words:
        key, _, value = word.partition("=")
        if key != "runs" or not value:
            raise ConfigError(f"unknown setting {word!r}: choose from runs=DIR")
        folder = Path(value)
    delivered = deliver_all(folder)
    if args.json:
        print_json({"delivered": delivered})
    else:
        runs = "run" if len(delivered) == 1 else "runs"
        out.print(f"{len(delivered)} {runs} delivered" if delivered else "nothing was waiting", markup=False)
    return 0


def deliver_all(runs: Path) -> list[str]:
    """Deliver every run and sweep that has ended and tracking does not have; returns their keys and names."""
    from permlab.platform.tracking import tracking_uri, undelivered

    names: list[str] = []
    if not runs.is_dir():
        return names
    try:
        waiting = undelivered(runs)
        with progress_bar("delivering", "runs") as report:
            for delivery in waiting:
                delivery.advance()
                names.append(delivery.folder.name)
                report(len(names), len(waiting))
    except Exception as error:  # MLflow raises its own, requests' and SQLAlchemy's
        reason = str(error).splitlines()[0][:200]
        raise RunError(f"{tracking_uri(runs)} cannot be reached: {reason}") from None
    return names
