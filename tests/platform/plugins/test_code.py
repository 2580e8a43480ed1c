"""Code by path: loaded when the user names it, known by its digest, carried to workers, refused in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from permlab.platform.errors import ConfigError, RunError
from permlab.platform.plugins import code
from permlab.platform.plugins.code import load, loaded, register
from permlab.platform.plugins.receive import receive_codes

MINE = """
from torch_geometric.nn.aggr import SumAggregation

class Mine(SumAggregation):
    value = 1
"""


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(code, "LOADED", {})
    monkeypatch.setattr("permlab.platform.plugins.receive.LOADED", code.LOADED)
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_class_in_a_file() -> None:
    write("mine.py", MINE)
    assert load("mine.py:Mine").value.value == 1
    assert load("mine.py:Mine") is loaded("mine.py:Mine")


def test_a_comment_changes_the_digest_and_an_edit_is_loaded() -> None:
    write("mine.py", MINE)
    first = load("mine.py:Mine")
    write("mine.py", MINE + "# a comment\n")
    second = load("mine.py:Mine")
    write("mine.py", MINE.replace("value = 1", "value = 2"))
    third = load("mine.py:Mine")
    assert len({first.digest, second.digest, third.digest}) == 3
    assert (first.value.value, third.value.value) == (1, 2)


def test_files_that_it_imports_count_and_travel() -> None:
    write(
        "folder/mine.py",
        "import numpy\nfrom helper import VALUE\nfrom tools.deep import more\nclass Mine:\n  value = VALUE + more\n",
    )
    write("folder/helper.py", "VALUE = 1\n")
    write("folder/tools/__init__.py", "")
    write("folder/tools/deep.py", "from . import other\nmore = other.one\n")
    write("folder/tools/other.py", "one = 1\n")
    write("folder/unused.py", "raise RuntimeError\n")
    first = load("folder/mine.py:Mine")
    assert first.value.value == 2
    assert set(first.shipped.files) == {"mine.py", "helper.py", "tools/__init__.py", "tools/deep.py", "tools/other.py"}
    write("folder/tools/other.py", "one = 10\n")
    second = load("folder/mine.py:Mine")
    assert second.value.value == 11 and second.digest != first.digest


def test_two_files_of_one_name_do_not_mix() -> None:
    for folder, value in (("a", 1), ("b", 2)):
        write(f"{folder}/mine.py", "from helper import value\nclass Mine:\n  value = value\n")
        write(f"{folder}/helper.py", f"value = {value}\n")
    assert [load(f"{folder}/mine.py:Mine").value.value for folder in ("a", "b", "a")] == [1, 2, 1]


def test_a_module_of_this_folder_and_an_installed_one() -> None:
    write("lab_of_mine/__init__.py", "")
    write("lab_of_mine/readouts.py", MINE)
    own = load("lab_of_mine.readouts:Mine")
    assert own.value.value == 1 and set(own.shipped.files) == {"lab_of_mine/__init__.py", "lab_of_mine/readouts.py"}
    installed = load("torch_geometric.nn.aggr.basic:MeanAggregation")
    assert installed.shipped.files == {} and installed.digest
    sys.modules.pop("lab_of_mine.readouts"), sys.modules.pop("lab_of_mine")


def test_a_stored_name_loads_nothing() -> None:
    write("mine.py", "raise SystemExit('it ran')\n")
    with pytest.raises(RunError, match=r"--code mine.py:Mine"):
        loaded("mine.py:Mine")


def test_a_worker_loads_what_travels_and_needs_no_file(tmp_path: Path) -> None:
    write("mine.py", "from helper import value\nclass Mine:\n  value = value\n")
    write("helper.py", "value = 7\n")
    shipped = load("mine.py:Mine").shipped
    for name in ("mine.py", "helper.py"):
        Path(name).unlink()
    program = """
import pickle, sys
from permlab.platform.plugins.receive import receive_codes
from permlab.platform.plugins.code import loaded
receive_codes([pickle.load(open("shipped", "rb"))], "synthetic")
print(loaded("mine.py:Mine").value.value)
"""
    import pickle

    Path("shipped").write_bytes(pickle.dumps(shipped))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "7", done.stderr


def test_classes_and_objects_from_python() -> None:
    class Local:
        """Defined nowhere that another process could import."""

        width = 3

    name = register(Local)
    assert loaded(name).value is Local
    one, two = Local(), Local()
    two.width = 4
    assert register(one) != register(two)
    shipped = loaded(name).shipped
    del code.LOADED[name]
    receive_codes([shipped], "synthetic")
    assert loaded(name).value.width == 3


@pytest.mark.parametrize(
    ("text", "head", "said"),
    [
        (MINE, "missing.py:Mine", "missing.py"),
        (MINE, "mine.py:Mime", "Mine"),
        ("class A:\n  pass\n", "mine.py:Mine", "A"),
        ("class Mine\n", "mine.py:Mine", "line 1"),
        ("1 / 0\n", "mine.py:Mine", "ZeroDivisionError"),
        ("import not_a_module_at_all\n", "mine.py:Mine", "not_a_module_at_all"),
        ("raise SystemExit(3)\n", "mine.py:Mine", "SystemExit"),
        ("import broken_helper\n", "mine.py:Mine", "broken_helper"),
        (MINE, "no_such_module:Mine", "no_such_module"),
        (MINE, "mi ne:Mine", "mi ne"),
    ],
)
def test_what_is_wrong_is_one_line(text: str, head: str, said: str) -> None:
    write("mine.py", text)
    write("broken_helper.py", "def f(:\n")
    with pytest.raises(ConfigError) as error:
        load(head)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_class_imported_before_its_file_was_edited_is_known_by_what_it_is(tmp_path: Path) -> None:
    write("edited_lab.py", "class Mine:\n  def width(self):\n    return 1\n")
    sys.path.insert(0, str(tmp_path))
    try:
        import edited_lab

        write("edited_lab.py", "class Mine:\n  def width(self):\n    return 22\n")
        old = register(edited_lab.Mine)
        assert loaded(old).value().width() == 1 and loaded(old).shipped.pickled
        new = load("edited_lab:Mine")
        assert new.value().width() == 22 and new.digest != loaded(old).digest
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("edited_lab", None)


def test_a_helper_without_an_init_file_is_imported_anew() -> None:
    write("mine.py", "from tools_of_mine import helper\nclass Mine:\n  value = helper.value\n")
    write("tools_of_mine/helper.py", "value = 1\n")
    assert load("mine.py:Mine").value.value == 1
    write("tools_of_mine/helper.py", "value = 22\n")
    assert load("mine.py:Mine").value.value == 22
