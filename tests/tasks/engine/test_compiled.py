"""The cache of compiled loops saves time, and nothing that is wrong with it may stop a run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from permlab.tasks.engine.compiled import compiled

LOOP = """
from permlab.tasks.engine.compiled import compiled

@compiled
def twice(x):
    return 2 * x

print(twice(21), *twice.stats.cache_hits.values())
"""


def run(folder: Path, code: str = LOOP) -> str:
    (folder / "loop.py").write_text(code)
    os.utime(folder / "loop.py", (0, 0))  # a cached loop is valid as long as its source keeps its time
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "kept")}
    command = [sys.executable, str(folder / "loop.py")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_a_loop_is_compiled_once_for_all_processes(tmp_path: Path) -> None:
    assert run(tmp_path) == "42\n" and run(tmp_path) == "42 1\n"


def test_a_change_to_another_file_of_loops_invalidates_the_cache(tmp_path: Path) -> None:
    """A compiled loop contains the loops that it calls."""
    package = tmp_path / "permlab" / "tasks" / "engine"
    package.mkdir(parents=True)
    (package / "compiled.py").write_text(Path(compiled.__code__.co_filename).read_text())
    (package / "other.py").touch()
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    (tmp_path / "loop.py").write_text(LOOP)

    def again() -> str:
        command = [sys.executable, str(tmp_path / "loop.py")]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert [again(), again()] == ["42\n", "42 1\n"]
    (package / "other.py").write_text("changed = True")
    assert [again(), again()] == ["42\n", "42 1\n"]


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_damaged_cache_file_is_replaced(tmp_path: Path, suffix: str, damage: bytes | None) -> None:
    run(tmp_path)
    (kept,) = (tmp_path / "kept").rglob(f"*.{suffix}")
    kept.write_bytes(kept.read_bytes()[: kept.stat().st_size // 2] if damage is None else damage)
    assert run(tmp_path) == "42\n" and run(tmp_path) == "42 1\n"


def test_a_cache_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    run(tmp_path)
    (index,) = (tmp_path / "kept").rglob("*.nbi")
    for file in index.parent.glob("*.nb*"):
        file.unlink()
    index.mkdir()  # the index can be neither read nor written
    assert run(tmp_path) == "42\n"


def test_a_loop_that_cannot_be_cached_is_compiled_all_the_same() -> None:
    names: dict = {}
    exec("def twice(x):\n    return 2 * x", names)  # it has no file, so there is no folder for the cache
    assert compiled(names["twice"])(21) == 42
