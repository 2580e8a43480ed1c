"""How sweeps and tunings stand, from what is stored: while they run, and afterwards.

permlab status            all sweeps and tunings in runs/
permlab status NAME       the cells of one, and the trials
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
    parser.add_argument("name", nargs="?", metavar="NAME", help="a sweep or a tuning")
    parser.add_argument("--runs", default="runs", help="the runs folder (default: runs)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    runs = Path(args.runs)
    sweeps = {path.parent.name: sweep_state(path.parent) for path in sorted(runs.glob("sweeps/*/sweep.json"))}
    tunings = {path.parent.name: tuning_state(path.parent) for path in sorted(runs.glob("tunings/*/sweep.json"))}
    if args.name and args.name not in sweeps | tunings:
        known = ", ".join(sorted(sweeps | tunings)) or "there are none"
        raise ConfigError(f"there is no sweep {args.name!r} in {runs}; choose from: {known}")
    chosen = [found[args.name] for found in (sweeps, tunings) if args.name in found]
    if args.json:
        all_of_them = {"sweeps": list(sweeps.values()), "tunings": list(tunings.values())}
        print_json(chosen[0] if args.name else all_of_them)
    elif args.name:
        for state in chosen:
            _show_cells(state)
    else:
        _show_sweeps([*sweeps.values(), *tunings.values()])
    return 0


def tuning_state(folder: Path) -> dict[str, Any]:
    """A tuning and the trials that were begun so far."""
    document = read_json(folder / "sweep.json") or {}
    trials = []
    for path in folder.glob("trials/*/run.json"):
        run = read_json(path) or {}
        state = _cell_state(path.parent)
        tags = (read_json(path.parent / "result.json") or {}).get("tags", {})
        if tags.get("state") == "pruned":
            state["error"] = "pruned"
        facts = {"name": run["name"], "dataset": run["dataset"]["name"], "number": int(run["tags"]["trial"])}
        trials.append(facts | {"study": run["tags"]["study"]} | state)
    trials.sort(key=lambda trial: (trial["study"], trial["number"]))
    counts = dict(Counter(trial["state"] for trial in trials))
    status = document.get("status") or "RUNNING"
    return {"name": f"{folder.name} (tuning)", "status": status, "counts": counts, "cells": trials}


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


def _show_sweeps(sweeps: list[dict[str, Any]]) -> None:
    if not sweeps:
        out.print("no sweeps yet; try: permlab sweep quick")
        return
    states = ("FINISHED", "RUNNING", "WAITING", "FAILED", "KILLED")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("sweep")
    table.add_column("status")
    for state in states:
        table.add_column(state.lower(), justify="right")
    for sweep in sweeps:
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
