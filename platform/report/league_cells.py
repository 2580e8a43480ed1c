"""league.csv: the cells of a sweep as one small table, enough to make docs/league.md again.

One row per planned cell: its headline metric on every split, its certificate, sizes, and the settings that are not the
default in some cell. Nothing in it tells the machine.
"""

import csv
import json
import math
from pathlib import Path
from typing import Any

import pandas as pd

from permlab.platform.errors import ConfigError
from permlab.platform.report.stored import SPLITS, StoredSweep
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import describe
from permlab.tasks.metrics import higher_is_better, metric_label

FACTS = ["dataset", "method", "d", "seed", "status"]
METRIC = ["metric", "label", "higher_is_better"]
SIZES = ["max_nodes", "cost/parameters", "graphs/train", "graphs/validation", "graphs/holdout"]
CERTIFICATE = [f"certificate/{name}" for name in ("invariance_error", "ratio_min", "ratio_median", "ratio_max", "gap")]
NOT_KEPT = {"dataset", "method", "d", "seed", "accelerator", "threads", "runs", "track", "experiment", "train.engine"}
TEXTS = {"dataset", "method", "status", *METRIC}
DEFAULTS = {name: str(value) for name, value, _ in describe(RunSettings) if name not in NOT_KEPT}


def write_cells(sweep: StoredSweep, path: Path) -> None:
    rows = [_row(sweep, cell) for cell in sweep.cells.to_dict("records")]
    settings = [name for name, usual in DEFAULTS.items() if any(row.get(name, usual) != usual for row in rows)]
    columns = [*FACTS, *METRIC, *SPLITS, *SIZES, *CERTIFICATE]
    table = pd.DataFrame(rows, columns=[*columns, *settings])
    table = table.drop(columns=[name for name in columns[len(FACTS) :] if table[name].isna().all()])
    table.to_csv(path, index=False)  # scores with all their digits: rounded ones could tie, and change ranks


def _row(sweep: StoredSweep, cell: dict[str, Any]) -> dict[str, Any]:
    row = {name: cell[name] for name in FACTS}
    metric = sweep.headline(cell["dataset"])
    if cell["status"] != "FINISHED" or metric is None:
        return row
    row |= {"metric": metric, "label": metric_label(metric), "higher_is_better": higher_is_better(metric)}
    row |= {split: cell.get(f"{split}/{metric}") for split in SPLITS}
    row |= {name: cell.get(name) for name in SIZES}
    row |= {name: float(f"{cell[name]:.6g}") for name in CERTIFICATE if name in cell}
    params = cell.get("params")
    return row | ({name: params.get(name, usual) for name, usual in DEFAULTS.items()} if params else {})


def read_cells(path: Path) -> StoredSweep:
    """As if read from a runs folder, less the epochs."""
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            rows = [{name: _value(name, text) for name, text in row.items()} for row in reader]
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    if missing := [name for name in (*FACTS, *METRIC) if name not in (reader.fieldnames or ())]:
        raise ConfigError(f"{path} is not a league.csv: it has no column {missing[0]}")
    cells = pd.DataFrame([_cell(row) for row in rows])
    return StoredSweep(path.stem, "FINISHED", "", "", cells, pd.DataFrame(columns=["key", "epoch"]))


def _value(name: str, text: str) -> Any:
    """A text, a whole number, or a number; NaN where the cell has none."""
    if name in TEXTS or name in DEFAULTS:
        return text
    return int(text) if text.isdecimal() else float(text or math.nan)


def _cell(row: dict[str, Any]) -> dict[str, Any]:
    cell = {name: row[name] for name in FACTS}
    name = f"{row['method']}-d{row['d']}-s{row['seed']}"
    cell |= {"key": f"{row['dataset']}-{name}", "name": name, "run_id": "", "error": ""}
    if row["status"] != "FINISHED":
        return cell
    metric = row["metric"]
    known = {metric: [row["label"], row["higher_is_better"] == "True"]}
    cell |= {"objective": json.dumps({"headline": metric, "metrics": known})}
    cell |= {f"{split}/{metric}": row[split] for split in SPLITS if split in row}
    cell |= {name: row[name] for name in (*SIZES, *CERTIFICATE) if name in row}
    return cell | {"params": DEFAULTS | {name: row[name] for name in DEFAULTS if name in row}}
