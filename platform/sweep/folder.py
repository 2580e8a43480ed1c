"""The folder of a sweep or a tuning: its settings (sweep.yaml, sweep.json) and its plan (plan.json)."""

import time
from pathlib import Path
from typing import Any

import yaml

from permlab.platform.files.json_files import read_json, write_json
from permlab.platform.files.secrets import masked
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import describe
from permlab.platform.sweep.plan import Cell


def open_folder(folder: Path, settings: SweepSettings, plan: list[Cell]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sweep.yaml").write_text(yaml.safe_dump(masked(settings.model_dump(mode="json")), sort_keys=False))
    write_json(folder / "plan.json", {"cells": [cell.row for cell in plan]})
    before = read_json(folder / "sweep.json") or {}
    params = {key: str(value) for key, value, _ in describe(type(settings), settings)}
    # MLflow's parameters cannot change: new ones need a new parent run, identified by its start
    started = before["started"] if before.get("params") == params else time.time()
    write_json(folder / "sweep.json", {"name": settings.name, "params": params, "started": started, "status": None})


def status_of(folder: Path) -> str | None:
    """How it ended; None while it runs."""
    status: str | None = (read_json(folder / "sweep.json") or {}).get("status")
    return status


def close_folder(folder: Path, status: str) -> None:
    document: dict[str, Any] = read_json(folder / "sweep.json") or {}
    write_json(folder / "sweep.json", document | {"status": status, "ended": time.time()})
