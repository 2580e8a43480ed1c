"""Equal key and equal numerics give equal bits; a resume under other numerics is marked as mixed."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

from permlab.platform.files.json_files import read_json
from permlab.platform.report.numerics import numerics_sentence
from permlab.platform.run.cell import run_cell
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import read_settings

DATA = "dataset=synthetic,graphs=60,max_nodes=8,task=classification"
FIELDS = {"code", "engine", "cpu", "threads", "device", "torch", "numba", "blas"}


class Killed(BaseException):
    pass


@pytest.fixture
def cell(tmp_path: Path):
    def settings(*words: str) -> RunSettings:
        fixed = [DATA, "train.epochs=4", "train.checkpoint_every=1", f"runs={tmp_path / 'runs'}"]
        return read_settings(RunSettings, [*fixed, *words])

    return settings


def kill_in_second(history: list[dict[str, float]]) -> None:
    if len(history) == 2:
        raise Killed


def folder(settings: RunSettings) -> Path:
    (cell_folder,) = (Path(settings.runs) / "cells").iterdir()
    return cell_folder


def test_numerics_are_stored_with_the_key(cell) -> None:
    settings = cell("train.engine=plain", "threads=2")
    result = run_cell(settings)
    run = read_json(folder(settings) / "run.json")
    assert run["numerics"] == result["numerics"] and set(run["numerics"]) == FIELDS
    assert (run["numerics"]["engine"], run["numerics"]["threads"], run["numerics"]["device"]) == ("plain", 2, "cpu")
    assert run["numerics"]["torch"] == torch.__version__ and run["mixed"] == result["mixed"] == []
    assert run["engine"] == result["engine"] == {"name": "plain", "reason": "train.engine=plain"}
    assert json.loads(run["tags"]["numerics"]) == [run["numerics"]] and run["tags"]["engine"] == "plain"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the two kernels are for x86-64")
def test_the_blas_is_named_with_the_kernels_that_it_uses() -> None:
    code = "from permlab.platform.run.numerics import blas_name; print(blas_name())"
    names = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "OPENBLAS_CORETYPE": kernels},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for kernels in ("Haswell", "Nehalem")
    ]
    assert "Haswell" in names[0] and "Nehalem" in names[1]


def test_a_resume_under_the_same_numerics_is_not_mixed(cell, capsys) -> None:
    settings = cell("threads=1")
    with pytest.raises(Killed):
        run_cell(settings, on_epoch=kill_in_second)
    assert run_cell(settings)["mixed"] == [] and "numerics" not in capsys.readouterr().err


@pytest.mark.parametrize("others", [["threads=2"], ["train.engine=plain", "threads=3"]])
def test_a_resume_under_other_numerics_is_mixed_and_says_so(cell, capsys, others: list[str]) -> None:
    with pytest.raises(Killed):
        run_cell(cell("threads=1"), on_epoch=kill_in_second)
    result = run_cell(cell(*others))  # the same key
    notes = [line for line in capsys.readouterr().err.splitlines() if "numerics" in line]
    threads = int(others[-1][-1])
    assert len(notes) == 1 and f"threads 1 → {threads}" in notes[0]
    assert [part["threads"] for part in result["mixed"]] == [1, threads] and result["numerics"] == result["mixed"][1]
    run = read_json(folder(cell()) / "run.json")
    assert run["mixed"] == result["mixed"] and json.loads(run["tags"]["numerics"]) == result["mixed"]
    assert result["tags"]["numerics"] == run["tags"]["numerics"]


def frame(*rows: tuple[str, str, list[dict[str, object]] | None]) -> pd.DataFrame:
    return pd.DataFrame(
        [{"name": name, "dataset": data, "numerics": json.dumps(parts) if parts else ""} for name, data, parts in rows]
    )


FAST = {"engine": "fast", "cpu": "AVX512", "threads": 1, "numba": "0.68"}
PLAIN = FAST | {"engine": "plain", "numba": None}


def test_a_report_is_silent_where_numerics_agree() -> None:
    assert numerics_sentence(frame(("a", "qm9", [FAST]), ("b", "qm9", [FAST]), ("c", "proteins_full", [PLAIN]))) == ""
    assert numerics_sentence(frame(("a", "qm9", [FAST]), ("old", "qm9", None))) == ""
    assert numerics_sentence(frame(("old", "qm9", None)).drop(columns="numerics")) == ""


def test_a_report_says_where_compared_cells_differ() -> None:
    cells = [("a", "qm9", [FAST]), ("b", "qm9", [FAST]), ("c", "qm9", [PLAIN]), ("d", "proteins_full", [PLAIN])]
    sentence = numerics_sentence(frame(*cells))
    assert "QM9" in sentence and "PROTEINS_full" not in sentence
    assert (
        "engine fast numba 0.68 in 2 cells (a, b)" in sentence and "engine plain numba None in 1 cell (c)" in sentence
    )
    assert "AVX512" not in sentence and "threads" not in sentence


def test_a_report_names_cells_that_were_resumed_under_others() -> None:
    sentence = numerics_sentence(frame(("a", "qm9", [FAST]), ("b", "qm9", [FAST, FAST | {"threads": 2}])))
    assert "threads 1, then threads 2 in 1 cell (b)" in sentence
