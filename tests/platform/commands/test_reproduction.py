"""`permlab reproduction`: what is named is added; nothing is dropped unless it is asked for."""

from pathlib import Path

import pandas as pd
import pytest

from permlab.platform.cli import main
from tests.platform.driving import drive


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    for name, seed in (("here", 0), ("there", 1)):
        drive(tmp_path / "runs", f"name={name}", f"seed={seed}", "track=false")
    return ["reproduction", f"--runs={tmp_path / 'runs'}", f"--docs={tmp_path / 'docs'}"]


def seeds(folder: Path) -> list[int]:
    return pd.read_parquet(folder / "docs/data/reproduction-cells.parquet")["seed"].tolist()


def test_sweeps_are_added_and_replace_drops_the_others(given: list[str], tmp_path: Path) -> None:
    assert main([*given, "--default", "here"]) == 0 and main([*given, "--default", "there"]) == 0
    assert seeds(tmp_path) == [0, 1] and main(given) == 0 and seeds(tmp_path) == [0, 1]
    assert main([*given, "--replace", "--default", "there"]) == 0 and seeds(tmp_path) == [1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "has no cells yet; name sweeps"),
        (["--replace"], "--replace goes with"),
        (["--search", "fit"], "no search 'fit'"),
        (["--default", "nothing"], "choose from: here, there"),
    ],
)
def test_a_wrong_call_is_one_line(
    given: list[str], words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*given, *words]) == 2
    assert says in " ".join(capsys.readouterr().err.split()) and not (tmp_path / "docs").exists()
