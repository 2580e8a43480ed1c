"""`permlab reproduce` on real Ray: killed, resumed, and one look at the holdout at the end."""

import csv
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from permlab.platform.files.json_files import read_json

pytestmark = pytest.mark.ray
WORDS = ["dataset=qm9,limit=2000", "method=[sum,kernels]", "d=10", "train.epochs=40", "tune.trials=3", "track=false"]


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "permlab.platform.cli", "reproduce", *WORDS, "tune.parallel=1", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=dict(os.environ), stdout=pipe, stderr=pipe, text=True)


def call(folder: Path, *words: str) -> str:
    process = start(folder, *words)
    out, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    return out


def trials(folder: Path, name: str) -> list[dict[str, Any]]:
    with (folder / "runs" / "tunings" / name / "trials.csv").open() as file:
        return [{key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(file)]


def test_killed_the_same_command_resumes(one_ray: None, tmp_path: Path) -> None:
    process = start(tmp_path, "name=parts", "--search-only")
    limit = time.monotonic() + 120
    while not list(tmp_path.glob("runs/tunings/parts/cells/*/checkpoint.pt")) and time.monotonic() < limit:
        time.sleep(0.05)
    process.kill()
    process.communicate(timeout=100)
    assert process.returncode == -9
    assert "at the end" not in call(tmp_path, "name=parts", "--search-only")
    assert not list(tmp_path.glob("runs/sweeps/*"))
    call(tmp_path, "name=whole", "--search-only")
    assert trials(tmp_path, "parts") == trials(tmp_path, "whole")


def test_the_holdout_is_looked_at_once_for_both_recipes(one_ray: None, tmp_path: Path) -> None:
    out = call(tmp_path, "name=look", "tune.trials=2")
    outcome = read_json(tmp_path / "runs/tunings/look/outcome.json") or {}
    rows = trials(tmp_path, "look")
    assert outcome["default"]["train"]["all"] == pytest.approx(float(rows[0]["distance"]))
    assert outcome["fitted"]["train"]["all"] == pytest.approx(min(float(row["distance"]) for row in rows))
    assert outcome["fitted"]["holdout"]["kernels"] > 0 and "at the end, holdout" in out
