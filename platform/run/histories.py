"""Metrics epoch by epoch: history.jsonl of a run, and one table with the histories of all cells of a sweep."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from permlab.datasets.seal import sealed
from permlab.platform.errors import DamagedFile
from permlab.platform.files.json_files import parse_sealed, read_json, without_nan

FILE_NAME = "history.jsonl"
FACTS = ("dataset", "method", "d", "seed")  # what the table of a sweep says of a cell, besides its key


def history_line(entry: dict[str, Any]) -> str:
    """One epoch as a line with its own seal: the file is read while it grows."""
    return json.dumps(sealed(without_nan(entry))) + "\n"


def read_history(folder: Path) -> list[dict[str, Any]]:
    """The entries of history.jsonl, the last one of each epoch, without a line that is still being written.

    DamagedFile if a line has changed since it was written; only the run's result shows whether lines are missing.
    """
    path = folder / FILE_NAME
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise DamagedFile(path, f"it cannot be read ({type(error).__name__})") from None
    entries = [parse_sealed(line, path) for line in lines]
    for line, entry in enumerate(entries, 1):
        if not isinstance(entry.get("epoch"), int) or not all(_is_measured(value) for value in entry.values()):
            raise DamagedFile(path, f"line {line} is not an epoch and its metrics")
    return list({entry["epoch"]: entry for entry in entries}.values())


def _is_measured(value: Any) -> bool:
    return value is None or isinstance(value, int | float)


def gather(folders: Iterable[Path], path: Path) -> None:
    """Write the evaluated epochs of the cells in these folders: columns key (a folder's name), dataset, method, d,
    seed, epoch, split/metric. A trial of a tuning has several seeds, so its seed is null.

    A cell whose history is damaged is left out: it must be run again.
    """
    rows = [
        {"key": folder.name} | _facts(folder) | entry
        for folder in folders
        for entry in evaluated(whole_history(folder))
    ]
    names = sorted({name for row in rows for name in row} - {"key", "epoch", "train/running_loss", *FACTS})
    texts = {
        name: pa.array([row[name] for row in rows], pa.string()).dictionary_encode() for name in ("key", *FACTS[:2])
    }
    numbers = {name: pa.array([row[name] for row in rows], pa.int64()) for name in (*FACTS[2:], "epoch")}
    metrics = {name: pa.array([row.get(name) for row in rows], pa.float32()) for name in names}
    pa.parquet.write_table(pa.table(texts | numbers | metrics), path)


def _facts(folder: Path) -> dict[str, Any]:
    settings = (read_json(folder / "run.json") or {}).get("params", {})
    return {name: settings.get(name) for name in FACTS[:2]} | {
        name: int(text) if (text := settings.get(name, "")).isdecimal() else None for name in FACTS[2:]
    }


def whole_history(folder: Path) -> list[dict[str, Any]]:
    """Like read_history, but empty if the history is damaged."""
    try:
        return read_history(folder)
    except DamagedFile:
        return []


def evaluated(history: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The epochs after which the splits were measured."""
    return [entry for entry in history if set(entry) - {"epoch", "train/running_loss"}]
