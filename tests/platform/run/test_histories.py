"""One table of all measured epochs of a sweep."""

import json
from pathlib import Path

import pyarrow.parquet

from permlab.platform.files.json_files import write_json
from permlab.platform.run.histories import gather, read_history


def write(folder: Path, *entries: dict[str, float], tail: str = "", **params: str) -> Path:
    folder.mkdir()
    write_json(folder / "run.json", {"params": params})
    (folder / "history.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries) + tail)
    return folder


def test_evaluated_epochs_of_all_cells_in_one_table(tmp_path: Path) -> None:
    running = {"epoch": 1, "train/running_loss": 0.5}
    cell, trial = (
        {"dataset": "qm9", "method": "sum", "d": "10", "seed": "3"},
        {"method": "sort", "d": "1", "seed": "0, 1"},
    )
    first = write(tmp_path / "first", running, {"epoch": 2, "train/running_loss": 0.4, "holdout/auc": 0.75}, **cell)
    second = write(tmp_path / "second", {"epoch": 1, "holdout/auc": 0.5, "train/loss": 1.0}, **trial)
    gather([first, tmp_path / "not-begun", second], tmp_path / "all.parquet")
    rows = pyarrow.parquet.read_table(tmp_path / "all.parquet").to_pylist()
    facts = [
        {"key": "first", "dataset": "qm9", "method": "sum", "d": 10, "seed": 3, "epoch": 2},
        {"key": "second", "dataset": None, "method": "sort", "d": 1, "seed": None, "epoch": 1},
    ]
    measured = [{"holdout/auc": 0.75, "train/loss": None}, {"holdout/auc": 0.5, "train/loss": 1.0}]
    assert rows == [row | metrics for row, metrics in zip(facts, measured, strict=True)]


def test_a_line_being_written_is_left_out_and_a_repeated_epoch_counts_once(tmp_path: Path) -> None:
    cell = write(tmp_path / "cell", {"epoch": 1, "x": 1}, {"epoch": 1, "x": 2}, tail='{"epoch": 2')
    assert read_history(cell) == [{"epoch": 1, "x": 2}]


def test_no_history_at_all_is_an_empty_table(tmp_path: Path) -> None:
    gather([], tmp_path / "all.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "all.parquet").num_rows == 0
