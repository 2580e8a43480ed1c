"""A sweep as it lies in the runs folder, and what of it a store lacks."""

from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from permlab.platform.errors import DamagedFile
from permlab.platform.files.json_files import read_json
from permlab.platform.files.liveness import is_driven
from permlab.platform.report.stored import TAGS, StoredSweep, StoredTuning
from permlab.platform.run.histories import evaluated, whole_history
from permlab.platform.run.stored_result import outcome, read_result
from permlab.platform.settings.kinds import folder_name
from permlab.platform.tuning.choice import FILE as CHOSEN
from permlab.platform.tuning.choice import STUDIES, baselines

UNDELIVERED = "UNDELIVERED"  # the status of a cell that is finished on disk, but not in the store


def read_on_disk(name: str, runs: Path) -> StoredSweep | None:
    """The sweep's plan, its cells with what they measured, and their epochs; None if the folder has no such sweep."""
    folder = runs / "sweeps" / folder_name(name)
    plan = (read_json(folder / "plan.json") or {}).get("cells")
    if not plan:
        return None
    document = read_json(folder / "sweep.json") or {}
    status = document.get("status") or ("RUNNING" if is_driven(folder) else "KILLED")
    rows, histories = [], []
    for cell in plan:
        place = runs / "cells" / cell["key"]
        history = whole_history(place)
        row = {key: cell[key] for key in ("key", "name", "dataset", "method", "d", "seed")}
        rows.append(row | _cell(place, status, history))
        if rows[-1]["status"] == "FINISHED":
            histories += [{"key": cell["key"]} | entry for entry in evaluated(history)]
    epochs = pd.DataFrame(histories) if histories else pd.DataFrame(columns=["key", "epoch"])
    params = document.get("params", {})
    tracked = params.get("track") != "False"
    tuning = _tuning(folder, name, runs)
    return StoredSweep(name, status, "", "", pd.DataFrame(rows), epochs, tuning=tuning, tracked=tracked, params=params)


def _cell(folder: Path, sweep_status: str, history: list[dict[str, Any]]) -> dict[str, Any]:
    """How it ended, and the last value of all that was measured."""
    run = read_json(folder / "run.json")
    row: dict[str, Any] = {"status": "WAITING", "run_id": "", "error": ""} | dict.fromkeys(TAGS, "")
    if run is None:
        return row
    row |= {"params": run["params"], "status": "RUNNING" if sweep_status == "RUNNING" else "KILLED"}
    try:
        result = read_result(folder)
    except DamagedFile as damage:
        return row | {"status": "FAILED", "error": str(damage)}
    tags = run["tags"] | (result or {}).get("tags", {})
    row |= {name: tags.get(name, "") for name in TAGS}
    row |= largest_graph(run)
    for entry in history:
        row |= {metric: value for metric, value in entry.items() if metric != "epoch" and value is not None}
    if result:
        row |= {"status": result["status"], "error": result.get("error", "")} | outcome(result)
        for split, metrics in result.get("metrics", {}).items():
            row |= {f"{split}/{metric}": value for metric, value in metrics.items()}
    return row


def largest_graph(run: dict[str, Any]) -> dict[str, int]:
    """N of the readout that run.json describes; runs of old versions do not say it."""
    size = run.get("model", {}).get("max_nodes")
    return {} if size is None else {"max_nodes": size}


def _tuning(folder: Path, name: str, runs: Path) -> StoredTuning | None:
    path = folder / CHOSEN
    if not path.exists():
        return None
    chosen = yaml.safe_load(path.read_text())["studies"]
    studies: dict[str, dict[str, Any]] = {}
    for tuning in {choice["study"].split("/")[0] for choice in chosen}:
        document = read_json(runs / "tunings" / tuning / STUDIES) or {"studies": []}
        studies |= {study["study"]: study for study in document["studies"]}
    known = [studies[choice["study"]] for choice in chosen if choice["study"] in studies]
    default = next(filter(None, (read_on_disk(baseline, runs) for baseline in baselines(name, chosen))), None)
    return StoredTuning(chosen, known, default)


def mark_undelivered(sweep: StoredSweep, runs: Path) -> None:
    """Give this status to the cells that the store lacks, and count them."""
    missing = sweep.cells["status"] != "FINISHED"
    waiting = [key for key in sweep.cells.loc[missing, "key"] if _finished(runs / "cells" / key)]
    sweep.cells.loc[sweep.cells["key"].isin(waiting), "status"] = UNDELIVERED
    sweep.undelivered = len(waiting)


def _finished(folder: Path) -> bool:
    return (read_json(folder / "result.json") or {}).get("status") == "FINISHED"


def undelivered_line(sweep: StoredSweep) -> str:
    done = len(sweep.finished)
    return (
        f"The store holds {done:,} of the {done + sweep.undelivered:,} cells that are finished on disk; "
        "`permlab deliver` sends the others, then write the report again."
    )
