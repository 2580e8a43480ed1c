"""Calls `permlab` in its own process, and finds the runs and cells that it left."""

import os
import re
import socket
import subprocess
import sys
import time
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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def printed_link(dashboard: subprocess.Popen[str], name: str) -> str:
    """The address of a sweep's page, once `permlab ui` prints it."""
    assert dashboard.stderr is not None
    limit = time.monotonic() + 120
    for line in dashboard.stderr:
        if found := re.search(rf"{name}: (http\S+)", line):
            return found.group(1)
        assert time.monotonic() < limit
    raise AssertionError("the dashboard ended without a link")


def runs_in(client: Any, experiment: str) -> list[Any]:
    experiment_id = client.get_experiment_by_name(experiment).experiment_id
    return list(client.search_runs([experiment_id]))


def only_run(client: Any, experiment: str = "permlab") -> Any:
    (run,) = runs_in(client, experiment)
    return run


def only_cell(folder: Path) -> Path:
    (cell,) = (folder / "runs" / "cells").iterdir()
    return cell
