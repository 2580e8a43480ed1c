"""Calls `permlab` in its own process, and finds the runs and cells that it left."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

DATA = "dataset=synthetic,graphs=90,max_nodes=8,task=classification"
CLI = [sys.executable, "-c", "import sys; from permlab.platform.cli import main; sys.exit(main(sys.argv[1:]))"]


def start(folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    """`permlab …` in its own process, in this folder."""
    clean = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    return subprocess.Popen(
        [*CLI, *words], cwd=folder, env=clean | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def call(folder: Path, *words: str, **environment: str) -> tuple[int, str, str]:
    process = start(folder, *words, **environment)
    out, err = process.communicate(timeout=180)
    return process.returncode, out, err


def runs_in(client: Any, experiment: str) -> list[Any]:
    experiment_id = client.get_experiment_by_name(experiment).experiment_id
    return list(client.search_runs([experiment_id]))


def only_run(client: Any, experiment: str = "permlab") -> Any:
    (run,) = runs_in(client, experiment)
    return run


def only_cell(folder: Path) -> Path:
    (cell,) = (folder / "runs" / "cells").iterdir()
    return cell
