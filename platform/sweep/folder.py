"""The folder of a sweep or a tuning: its settings (sweep.yaml, sweep.json), its plan (plan.json), and while it runs
the cells that are under way (under_way.json).
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from permlab.platform.errors import RunStopped, StopNow
from permlab.platform.files.json_files import read_json, write_json
from permlab.platform.files.secrets import masked
from permlab.platform.run.histories import FILE_NAME as HISTORY
from permlab.platform.run.stored_result import FAILED, STOPPED
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import describe
from permlab.platform.sweep.plan import Cell

UNDER_WAY = "under_way.json"


def open_folder(folder: Path, settings: SweepSettings, plan: list[Cell]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / UNDER_WAY).unlink(missing_ok=True)
    (folder / "sweep.yaml").write_text(yaml.safe_dump(masked(settings.model_dump(mode="json")), sort_keys=False))
    write_json(folder / "plan.json", {"cells": [cell.row for cell in plan]})
    before = read_json(folder / "sweep.json") or {}
    params = {key: str(value) for key, value, _ in describe(type(settings), settings)}
    # MLflow's parameters cannot change: new ones need a new parent run, identified by its start
    started = before["started"] if before.get("params") == params else time.time()
    commands = commands_of(before)
    if commands and commands[-1]["ended"] is None:  # it was killed
        commands[-1]["ended"] = last_sign([cell.folder for cell in plan], commands[-1]["started"])
    if left := not plan or any(cell.result is None for cell in plan):
        commands.append({"started": time.time(), "ended": None})
    starts = before.get("starts", 0) + left  # how often it was started with cells left to run
    document = {"name": settings.name, "params": params, "started": started, "starts": starts, "status": None}
    write_json(folder / "sweep.json", document | {"commands": commands})


def commands_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """When each command with cells left to run started and ended, whatever its settings; older versions kept the last
    one alone.
    """
    last = {"started": document.get("started"), "ended": document.get("ended")}
    commands: list[dict[str, Any]] = document.get("commands", [last] if document.get("starts") else [])
    return commands


def last_sign(cells: list[Path], since: float) -> float:
    """When one of these cells last ended an epoch: the end of a command that was killed."""
    histories = [path for cell in cells if (path := cell / HISTORY).exists()]
    return max([since, *(path.stat().st_mtime for path in histories)])


def status_of(folder: Path) -> str | None:
    """How it ended; None while it runs."""
    status: str | None = (read_json(folder / "sweep.json") or {}).get("status")
    return status


def close_folder(folder: Path, status: str) -> None:
    document: dict[str, Any] = read_json(folder / "sweep.json") or {}
    now, commands = time.time(), commands_of(document)
    if commands and commands[-1]["ended"] is None:
        commands[-1]["ended"] = now
    write_json(folder / "sweep.json", document | {"status": status, "ended": now, "commands": commands})
    (folder / UNDER_WAY).unlink(missing_ok=True)


@contextmanager
def closed_on_error(folder: Path) -> Iterator[None]:
    """If the block raises, record that the sweep was stopped or has failed."""
    try:
        yield
    except (KeyboardInterrupt, RunStopped, StopNow):
        close_folder(folder, STOPPED)
        raise
    except BaseException:
        close_folder(folder, FAILED)
        raise


def note_under_way(folder: Path, started: dict[str, float]) -> None:
    """The cells that were handed out, by key with the time: their own files appear only when a worker has started."""
    write_json(folder / UNDER_WAY, {"cells": started})


def under_way(folder: Path) -> dict[str, float]:
    cells: dict[str, float] = (read_json(folder / UNDER_WAY) or {}).get("cells", {})
    return cells
