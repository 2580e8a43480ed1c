"""How sweeps stand, from what is stored: while they run, and afterwards.

permlab status            all sweeps in runs/
permlab status NAME       the cells of one
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from rich.table import Table

from permlab.platform.console import out, print_json
from permlab.platform.errors import ConfigError
from permlab.platform.json_files import read_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a sweep")
    parser.add_argument("--runs", default="runs", help="the runs folder (default: runs)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    runs = Path(args.runs)
    sweeps = {path.parent.name: sweep_state(path.parent) for path in sorted(runs.glob("sweeps/*/sweep.json"))}
    if args.name and args.name not in sweeps:
        known = ", ".join(sweeps) or "there are none"
        raise ConfigError(f"there is no sweep {args.name!r} in {runs}; choose from: {known}")
    if args.json:
        print_json(sweeps[args.name] if args.name else {"sweeps": list(sweeps.values())})
    elif args.name:
        _show_cells(sweeps[args.name])
    else:
        _show_sweeps(sweeps)
    return 0


def sweep_state(folder: Path) -> dict[str, Any]:
    """A sweep and its cells, each with its state, epoch and time, read from the runs folder."""
    document, plan = read_json(folder / "sweep.json") or {}, read_json(folder / "plan.json") or {"cells": []}
    cells = [row | _cell_state(folder.parent.parent / "cells" / row["key"]) for row in plan["cells"]]
    counts = Counter(cell["state"] for cell in cells)
    return {"name": folder.name, "status": document.get("status") or "RUNNING", "counts": dict(counts), "cells": cells}


def _cell_state(folder: Path) -> dict[str, Any]:
    result = read_json(folder / "result.json")
    if result:
        return {"state": result["status"], "seconds": result.get("seconds"), "error": result.get("error")}
    if (folder / "run.json").exists():
        history = folder / "history.jsonl"
        return {"state": "RUNNING", "epoch": len(history.read_text().splitlines()) if history.exists() else 0}
    return {"state": "WAITING"}


def _show_sweeps(sweeps: dict[str, dict[str, Any]]) -> None:
    if not sweeps:
        out.print("no sweeps yet; try: permlab sweep quick")
        return
    states = ("FINISHED", "RUNNING", "WAITING", "FAILED", "KILLED")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("sweep")
    table.add_column("status")
    for state in states:
        table.add_column(state.lower(), justify="right")
    for sweep in sweeps.values():
        table.add_row(sweep["name"], sweep["status"].lower(), *(str(sweep["counts"].get(state, 0)) for state in states))
    out.print(table)


def _show_cells(sweep: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (
        ("cell", "left"),
        ("data set", "left"),
        ("state", "left"),
        ("time, s", "right"),
        ("", "left"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for cell in sweep["cells"]:
        seconds = f"{cell['seconds']:.1f}" if cell.get("seconds") is not None else ""
        note = cell.get("error") or (f"epoch {cell['epoch']}" if cell.get("epoch") else "")
        table.add_row(cell["name"], cell["dataset"], cell["state"].lower(), seconds, note)
    out.print(table)
