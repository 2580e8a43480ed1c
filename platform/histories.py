"""The measured epochs of all cells of a sweep in one table: one file to read for its curves, instead of one a cell."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet


def read_history(folder: Path) -> list[dict[str, Any]]:
    """The entries of history.jsonl, the last of each epoch, less a line that is being written."""
    try:
        lines = (folder / "history.jsonl").read_text().split("\n")[:-1]
    except FileNotFoundError:
        return []
    entries = [json.loads(line) for line in lines]
    return list({entry["epoch"]: entry for entry in entries}.values())


def gather(folders: Iterable[Path], path: Path) -> None:
    """Write the evaluated epochs of the cells in these folders: columns key (a folder's name), epoch, split/metric."""
    rows = [{"key": folder.name} | entry for folder in folders for entry in evaluated(read_history(folder))]
    names = ["epoch", *sorted({name for row in rows for name in row} - {"key", "epoch", "train/running_loss"})]
    columns = {name: pa.array([row.get(name) for row in rows], pa.float32()) for name in names}
    keys = pa.array([row["key"] for row in rows], pa.string()).dictionary_encode()
    pa.parquet.write_table(pa.table({"key": keys} | columns), path)


def evaluated(history: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The epochs after which the splits were measured."""
    return [entry for entry in history if set(entry) - {"epoch", "train/running_loss"}]
