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
    left = not plan or any(cell.result is None for cell in plan)
    starts = before.get("starts", 0) + left  # how often it was started with cells left to run
    document = {"name": settings.name, "params": params, "started": started, "starts": starts, "status": None}
    write_json(folder / "sweep.json", document)


def status_of(folder: Path) -> str | None:
    """How it ended; None while it runs."""
    status: str | None = (read_json(folder / "sweep.json") or {}).get("status")
    return status


def close_folder(folder: Path, status: str) -> None:
    document: dict[str, Any] = read_json(folder / "sweep.json") or {}
    write_json(folder / "sweep.json", document | {"status": status, "ended": time.time()})
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
