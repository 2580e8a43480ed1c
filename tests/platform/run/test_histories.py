"""One table of all measured epochs of a sweep."""

import json
from pathlib import Path

import pyarrow.parquet

from permlab.platform.run.histories import gather, read_history


def write(folder: Path, *entries: dict[str, float], tail: str = "") -> Path:
    folder.mkdir()
    (folder / "history.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries) + tail)
    return folder


def test_evaluated_epochs_of_all_cells_in_one_table(tmp_path: Path) -> None:
    running = {"epoch": 1, "train/running_loss": 0.5}
    first = write(tmp_path / "first", running, {"epoch": 2, "train/running_loss": 0.4, "holdout/auc": 0.75})
    second = write(tmp_path / "second", {"epoch": 1, "holdout/auc": 0.5, "train/loss": 1.0})
    facts = {"dataset": "mine", "method": "sum", "d": 3, "seed": 1}
    cells = {"first": facts | {"name": "sum-d3-s1"}, "second": facts | {"seed": 2}}
    gather([first, tmp_path / "not-begun", second], tmp_path / "all.parquet", cells)
    rows = pyarrow.parquet.read_table(tmp_path / "all.parquet").to_pylist()
    assert rows == [
        {"key": "first"} | facts | {"epoch": 2.0, "holdout/auc": 0.75, "train/loss": None},
        {"key": "second"} | facts | {"seed": 2, "epoch": 1.0, "holdout/auc": 0.5, "train/loss": 1.0},
    ]


def test_a_line_being_written_is_left_out_and_a_repeated_epoch_counts_once(tmp_path: Path) -> None:
    cell = write(tmp_path / "cell", {"epoch": 1, "x": 1}, {"epoch": 1, "x": 2}, tail='{"epoch": 2')
    assert read_history(cell) == [{"epoch": 1, "x": 2}]


def test_no_history_at_all_is_an_empty_table(tmp_path: Path) -> None:
    gather([], tmp_path / "all.parquet", {})
    table = pyarrow.parquet.read_table(tmp_path / "all.parquet")
    assert len(table) == 0 and table.column_names == ["key", "dataset", "method", "d", "seed", "epoch"]
