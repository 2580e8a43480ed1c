"""Metrics epoch by epoch: history.jsonl of a run, and one table with the histories of all cells of a sweep."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from permlab.datasets.seal import sealed
from permlab.platform.errors import DamagedFile
from permlab.platform.files.json_files import parse_sealed, without_nan

FILE_NAME = "history.jsonl"
FACTS = {"dataset": pa.string(), "method": pa.string(), "d": pa.int64(), "seed": pa.int64()}


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


def gather(folders: Iterable[Path], path: Path, facts: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the evaluated epochs of the cells in these folders: columns key (a folder's name), the cell's FACTS as far
    as `facts` has them by key, epoch, split/metric.

    A cell whose history is damaged is left out: it must be run again.
    """
    rows = [{"key": folder.name} | entry for folder in folders for entry in evaluated(whole_history(folder))]
    names = ["epoch", *sorted({name for row in rows for name in row} - {"key", "epoch", "train/running_loss"})]
    columns = {"key": pa.array([row["key"] for row in rows], pa.string()).dictionary_encode()}
    for name, kind in FACTS.items():
        values = pa.array([facts.get(row["key"], {}).get(name) for row in rows], kind)
        columns[name] = values.dictionary_encode() if kind == pa.string() else values
    columns |= {name: pa.array([row.get(name) for row in rows], pa.float32()) for name in names}
    pa.parquet.write_table(pa.table(columns), path)


def whole_history(folder: Path) -> list[dict[str, Any]]:
    """Like read_history, but empty if the history is damaged."""
    try:
        return read_history(folder)
    except DamagedFile:
        return []


def evaluated(history: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The epochs after which the splits were measured."""
    return [entry for entry in history if set(entry) - {"epoch", "train/running_loss"}]
