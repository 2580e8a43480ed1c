"""The state of sweeps and tunings, from their files: while they run, and afterwards.

permlab status            all sweeps and tunings in runs/
permlab status NAME       the cells of one sweep, or the trials of one tuning
"""

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from permlab.platform.display.console import out, print_json
from permlab.platform.errors import ConfigError, DamagedFile
from permlab.platform.files.json_files import load_json, read_json
from permlab.platform.files.liveness import is_driven
from permlab.platform.run.histories import FILE_NAME as HISTORY
from permlab.platform.run.progress import Follower, flat, headline_value, stored_headline
from permlab.platform.run.stored_result import KILLED, STOPPED, read_result
from permlab.platform.settings.folders import runs_folder
from permlab.platform.sweep.folder import under_way
from permlab.platform.tuning.trial_task import PROGRESS

STATES = ("FINISHED", "RUNNING", "WAITING", "FAILED", "STOPPED", "INTERRUPTED")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a sweep or a tuning")
    parser.add_argument("--runs", default="runs", help="the runs folder (default: runs)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    runs = runs_folder(args.runs)
    folders = {
        kind: {path.parent.name: path.parent for path in sorted(runs.glob(f"{kind}/*/sweep.json"))}
        for kind in ("sweeps", "tunings")
    }
    known = sorted({name for by_name in folders.values() for name in by_name})
    if args.name and args.name not in known:
        raise ConfigError(f"there is no sweep {args.name!r} in {runs}; choose from: {', '.join(known) or 'none yet'}")
    sweeps, tunings = (
        [state_of(folder) for name, folder in folders[kind].items() if args.name in (None, name)]
        for kind, state_of in (("sweeps", sweep_state), ("tunings", tuning_state))
    )
    if args.json:
        print_json([*sweeps, *tunings][0] if args.name else {"sweeps": sweeps, "tunings": tunings})
    elif args.name:
        for state in [*sweeps, *tunings]:
            _show_cells(state)
    else:
        _show_sweeps([*sweeps, *tunings])
    return 0


def sweep_state(folder: Path) -> dict[str, Any]:
    """A sweep and its cells, each with its state, epoch and time, read from the runs folder."""
    plan = read_json(folder / "plan.json") or {"cells": []}
    status, epochs = status_of(folder), _setting(folder, "train.epochs")
    handed = under_way(folder) if status == "RUNNING" else {}
    cells_folder = folder.parent.parent / "cells"
    headlines: dict[str, str] = {}  # by data set: the cells of a sweep share their objective
    cells = []
    for row in plan["cells"]:
        place = cells_folder / row["key"]
        state = _state(place, place / HISTORY, handed.get(row["key"]))
        if state.get("measured") and row["dataset"] not in headlines:
            headlines[row["dataset"]] = stored_headline(place)
        value = headline_value(state.pop("measured", {}), headlines.get(row["dataset"], ""))
        cells.append(
            row | state | {"epochs": epochs} | (dict(zip(("metric", "value"), value, strict=True)) if value else {})
        )
    return {"name": folder.name, "status": status, "counts": _counts(cells), "cells": cells}


def tuning_state(folder: Path) -> dict[str, Any]:
    """A tuning and the trials started so far."""
    status = status_of(folder)
    trials = [_trial_state(path.parent, status) for path in folder.glob("trials/*/run.json")]
    trials.sort(key=lambda trial: (trial["study"], trial["number"]))
    return {"name": f"{folder.name} (tuning)", "status": status, "counts": _counts(trials), "cells": trials}


def status_of(folder: Path) -> str:
    """The status that it ended with; until then RUNNING if a process drives it, else INTERRUPTED."""
    status: str | None = (read_json(folder / "sweep.json") or {}).get("status")
    return _today(status) if status else "RUNNING" if is_driven(folder) else "INTERRUPTED"


def _today(status: str) -> str:
    """Versions before wrote KILLED for what was stopped."""
    return STOPPED if status == KILLED else status


def _setting(folder: Path, name: str) -> int | None:
    text = (read_json(folder / "sweep.json") or {}).get("params", {}).get(name, "")
    return int(text) if text.isdigit() else None


def _state(folder: Path, history: Path, handed: float | None) -> dict[str, Any]:
    """A cell or a trial; `handed` is when the sweep that runs now handed it to a worker, if it did."""
    try:
        result = read_result(folder)
    except DamagedFile as damage:
        return {"state": "FAILED", "error": f"{damage.path.name} is damaged: {damage.what}; run this cell again"}
    over = result is not None and result["ended"] >= (handed or 0)
    if result and over and "epochs" in result:
        facts = {"state": _today(result["status"]), "seconds": result.get("seconds"), "error": result.get("error")}
        return facts | {"epoch": result["epochs"], "measured": flat(result.get("metrics", {}))}
    if not over and handed is None and not (folder / "run.json").exists():
        return {"state": "WAITING"}
    follower = Follower(history)
    follower.look()
    far = {"epoch": follower.epoch, "measured": follower.measured}
    if result and over:
        return far | {"state": _today(result["status"]), "error": result.get("error")}
    return far | ({"state": "RUNNING", "seconds": time.time() - handed} if handed else {"state": "INTERRUPTED"})


def _trial_state(folder: Path, sweep_status: str) -> dict[str, Any]:
    try:
        run = load_json(folder / "run.json") or {}
        result = read_result(folder) or {}
    except DamagedFile as damage:
        study, number = folder.name.rpartition("-t")[::2]
        unread = {"state": "FAILED", "epoch": None, "epochs": None, "error": str(damage)}
        return unread | {"name": folder.name, "dataset": "", "study": study, "number": int(number)}
    state = _state(folder, folder / PROGRESS, run["started"] if sweep_status == "RUNNING" else None)
    value: Any = headline_value(state.pop("measured", {}), "")
    if result.get("value") is not None:
        value = run.get("measure", "value"), result["value"]
    if result.get("tags", {}).get("state") == "pruned":
        state["error"] = "pruned"
    facts = {"name": run["name"], "dataset": run["dataset"]["name"], "number": int(run["tags"]["trial"])}
    facts |= {"study": run["tags"]["study"], "epochs": run.get("epochs")}
    return facts | state | (dict(zip(("metric", "value"), value, strict=True)) if value else {})


def _counts(cells: list[dict[str, Any]]) -> dict[str, int]:
    return dict(Counter(cell["state"] for cell in cells))


def _show_sweeps(sweeps: list[dict[str, Any]]) -> None:
    if not sweeps:
        out.print("no sweeps yet; try: permlab sweep quick")
        return
    rows = [("sweep", "status", *(state.lower() for state in STATES))]
    for sweep in sweeps:
        counts = [str(sweep["counts"].get(state, 0)) for state in STATES]
        rows.append((sweep["name"], sweep["status"].lower(), *counts))
    _print_table(rows, left=2)


def _show_cells(sweep: dict[str, Any]) -> None:
    unit = "trial" if "(tuning)" in sweep["name"] else "cell"
    rows = [(unit, "data set", "state", "epoch", "measured", "time, s", "")]
    for cell in sweep["cells"]:
        seconds = f"{cell['seconds']:.1f}" if cell.get("seconds") is not None else ""
        of = f" of {cell['epochs']}" if cell.get("epochs") else ""
        epoch = f"{cell['epoch']}{of}" if cell.get("epoch") else ""
        value = f"{cell['metric']} {cell['value']:.4f}" if "value" in cell else ""
        facts = (cell["name"], cell["dataset"], cell["state"].lower(), epoch, value, seconds)
        rows.append((*facts, cell.get("error") or ""))
    _print_table(rows, left=3)


def _print_table(rows: Sequence[tuple[str, ...]], left: int) -> None:
    """The first `left` columns are left-aligned. Not Rich's table: it takes 10 s for 20,000 rows."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [text.ljust(width) for text, width in zip(row[:left], widths, strict=False)]
        cells += [text.rjust(width) for text, width in zip(row[left:], widths[left:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    out.print("\n".join(lines), markup=False)
