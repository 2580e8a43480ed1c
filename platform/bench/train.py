"""Training through `permlab train`, tracking included, beside a plain PyG + Lightning script: one core, one run."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from rich.table import Table

from permlab.platform.console import err, out, progress_bar

# data set, epochs: enough steps to time, the same for both
CASES = (("proteins_full", 60), ("qm9,limit=20000", 4))
METHODS = ("sum", "ordering")
D = 10
REPEATS = 3
OURS = "import sys; from permlab.platform.cli import main; sys.exit(main(sys.argv[1:]))"
THEIRS = """
import json, sys, warnings, logging
warnings.filterwarnings("ignore")
import torch
torch.set_num_threads(1)
from permlab.platform.bench.plain_pyg import plain_run
from permlab.platform.config import RunSettings
from permlab.platform.settings import read_settings
from permlab.platform.trial import Trial
logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
print(json.dumps(plain_run(Trial.prepare(read_settings(RunSettings, sys.argv[1:])))))
"""


def measure() -> dict[str, Any]:
    """Ours and theirs in turn, several times; medians and ranges of graphs a second."""
    cells = [(name, epochs, method) for name, epochs in CASES for method in METHODS]
    rows = []
    with tempfile.TemporaryDirectory(prefix="permlab-bench-") as folder, progress_bar("bench train", "cells") as report:
        for done, (name, epochs, method) in enumerate(cells):
            report(done, len(cells))
            rows.append(_cell(folder, name, epochs, method))
    return {"machine": os.uname().machine, "threads": 1, "rows": rows}


def _cell(folder: str, name: str, epochs: int, method: str) -> dict[str, Any]:
    words = [
        f"dataset={name}",
        f"method={method}",
        f"d={D}",
        f"train.epochs={epochs}",
        "train.eval_every=1000",
        "threads=1",
    ]
    ours, theirs, difference = [], [], 0.0
    for _ in range(REPEATS):
        ours.append(_run([OURS, "train", *words, f"runs={folder}", "--fresh", "--json"])["seconds"])
        plain = _run([THEIRS, *words])
        theirs.append(plain["seconds"])
        difference = max(difference, plain["difference"])
    if difference > 1e-2:
        err.print(f"{name} {method}: the two models differ by {difference:.2e} at the same weights", markup=False)
    return {
        "data": name,
        "method": method,
        "d": D,
        "epochs": epochs,
        "ours_seconds": statistics.median(ours),
        "ours_range": [min(ours), max(ours)],
        "plain_seconds": statistics.median(theirs),
        "plain_range": [min(theirs), max(theirs)],
        "ratio": statistics.median(theirs) / statistics.median(ours),
        "difference": difference,
    }


def _run(words: list[str]) -> dict[str, Any]:
    """One process on one core; what it prints is JSON."""
    core = str(min(os.sched_getaffinity(0)))
    command = ["taskset", "--cpu-list", core, sys.executable, "-c", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def show(result: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("data set", "method", "d"):
        table.add_column(column)
    for column in ("ours, s an epoch", "plain PyG, s an epoch", "ratio", "largest difference"):
        table.add_column(column, justify="right")
    for row in result["rows"]:
        spread = [f"{row[key] / row['epochs']:.3f}" for key in ("ours_seconds", "plain_seconds")]
        table.add_row(
            row["data"], row["method"], str(row["d"]), *spread, f"{row['ratio']:.1f}×", f"{row['difference']:.1e}"
        )
    out.print(table)
