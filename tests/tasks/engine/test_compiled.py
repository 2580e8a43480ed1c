"""Nothing about what is kept of a compiled loop may stop a run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from permlab.readouts.compiled import compiled

LOOP = """
from permlab.readouts.compiled import compiled

@compiled
def twice(x):
    return 2 * x

print(twice(21), *twice.stats.cache_hits.values())
"""


SHARED = """
import pickle
from numba.core.errors import TypingError
from permlab.readouts.compiled import compiled, shared
from permlab.readouts.loops.vectors import integers
import numpy as np

@shared
def put(value, to):
    if value < 0:
        raise ValueError("too small")
    integers(to, 1)[0] = value

@compiled
def twice(x, to):
    put(2 * x, to)

@compiled
def thrice(x, to):
    twice(x, to)
    put(x + integers(to, 1)[0], to)

@compiled
def half(x, to):
    put(x / 2, to)

found = np.zeros(1, dtype=np.int64)
thrice(14, found.ctypes.data)
print(found[0], *(sum(each.stats.cache_hits.values()) for each in (put.loop, thrice)))
put(5, found.ctypes.data)
assert found[0] == 5
try:
    thrice(-1, found.ctypes.data)
except ValueError as error:
    print(error)
try:
    half(3, found.ctypes.data)
except TypingError:
    print("whole numbers")
print(pickle.loads(pickle.dumps(put)) is put, put.__name__)
print("__main__.put" in next(iter(thrice.inspect_asm().values())))
"""


def run(folder: Path, code: str = LOOP) -> str:
    (folder / "loop.py").write_text(code)
    os.utime(folder / "loop.py", (0, 0))  # what was kept is known by the time of its source
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "kept")}
    command = [sys.executable, str(folder / "loop.py")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_a_loop_is_compiled_once_for_all_processes(tmp_path: Path) -> None:
    assert run(tmp_path) == "42\n" and run(tmp_path) == "42 1\n"


def test_a_shared_loop_is_compiled_once_for_all_that_call_it(tmp_path: Path) -> None:
    """Others name it: what they kept finds it in a new process, and its errors come through."""
    lines = [run(tmp_path, SHARED).splitlines() for _ in range(2)]
    others = ["too small", "whole numbers", "True put"]
    assert lines[0] == ["42 0 0", *others, "True"]
    assert lines[1][:-1] == ["42 1 1", *others]  # the assembly is not kept
    for kept in (tmp_path / "kept").rglob("loop.put-*"):  # kept no more, though others name it
        kept.unlink()
    assert run(tmp_path, SHARED).splitlines()[0] == "42 0 1"


def test_a_file_under_another_name_has_shared_loops_of_its_own(tmp_path: Path) -> None:
    """What is kept of it as a script names `__main__`'s loops."""
    run(tmp_path, SHARED)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    done = subprocess.run([sys.executable, "-c", "import loop"], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == 0 and done.stdout.startswith(b"42 0 0\n"), done.stderr


def test_what_is_kept_is_of_no_use_once_another_file_of_loops_has_changed(tmp_path: Path) -> None:
    """A loop contains the ones that it calls."""
    package = tmp_path / "permlab"
    for part in ("readouts", "datasets", "tasks"):
        (package / part).mkdir(parents=True)
    (package / "readouts" / "compiled.py").write_text(Path(compiled.__code__.co_filename).read_text())
    (package / "tasks" / "other.py").touch()
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    (tmp_path / "loop.py").write_text(LOOP)

    def again() -> str:
        command = [sys.executable, str(tmp_path / "loop.py")]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert [again(), again()] == ["42\n", "42 1\n"]
    (package / "tasks" / "other.py").write_text("changed = True")
    assert [again(), again()] == ["42\n", "42 1\n"]


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_damaged_file_is_made_anew(tmp_path: Path, suffix: str, damage: bytes | None) -> None:
    run(tmp_path)
    (kept,) = (tmp_path / "kept").rglob(f"*.{suffix}")
    kept.write_bytes(kept.read_bytes()[: kept.stat().st_size // 2] if damage is None else damage)
    assert run(tmp_path) == "42\n" and run(tmp_path) == "42 1\n"


def test_a_folder_that_cannot_be_written_to_is_no_reason_to_stop(tmp_path: Path) -> None:
    run(tmp_path)
    (index,) = (tmp_path / "kept").rglob("*.nbi")
    for file in index.parent.glob("*.nb*"):
        file.unlink()
    index.mkdir()  # the index can be neither read nor written
    assert run(tmp_path) == "42\n"


def test_what_cannot_be_kept_is_compiled_all_the_same() -> None:
    found: dict = {}
    exec("def twice(x):\n    return 2 * x", found)  # no file: nowhere beside which it could be kept
    assert compiled(found["twice"])(21) == 42
