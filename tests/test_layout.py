"""Which folder may import which, which files must not exist, and that the wheel works without the repository."""

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "readouts": {"readouts"},
    "datasets": {"datasets"},
    "tasks": {"tasks", "readouts", "datasets"},
    "platform": {"platform", "tasks", "readouts", "datasets"},
}
API = ROOT / "platform" / "api"  # `permlab` itself
ENGINE = ROOT / "tasks" / "engine"
COMPILERS = {"numba", "llvmlite"}


def nodes(tree: ast.AST, inside_functions: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if inside_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from nodes(node, inside_functions)


def imported(file: Path, inside_functions: bool = True) -> set[str]:
    """Every module that a file imports, at its top and, if asked for, inside its functions."""
    names: set[str] = set()
    for node in nodes(ast.parse(file.read_text()), inside_functions):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import; write permlab.…"
            names.add(node.module or "")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def of_the_engine(names: set[str]) -> set[str]:
    return {name for name in names if f"{name}.".startswith("permlab.tasks.engine.")}


def outside_the_engine(*parts: str) -> list[Path]:
    files = [file for part in parts for file in (ROOT / part).rglob("*.py") if not file.is_relative_to(ENGINE)]
    assert files
    return files


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_dependencies_point_one_way(part: str) -> None:
    for file in (ROOT / part).rglob("*.py"):
        ours = {name.split(".")[1] for name in imported(file) if name.startswith("permlab.")}
        assert ours <= MAY_IMPORT[part], f"{file} imports {ours - MAY_IMPORT[part]}"


def test_engines_stay_in_the_platform() -> None:
    for part in ("readouts", "datasets", "tasks"):
        for file in (ROOT / part).rglob("*.py"):
            engines = {name.split(".")[0] for name in imported(file)} & {"ray", "optuna", "mlflow"}
            assert not engines, f"{file} imports {engines}"


def test_the_definition_knows_neither_the_engine_nor_its_compilers() -> None:
    for file in outside_the_engine("readouts", "datasets", "tasks"):
        names = imported(file)
        assert not of_the_engine(names), f"{file} imports the engine"
        assert not COMPILERS & {name.split(".")[0] for name in names}, f"{file} imports a compiler"


def test_the_engine_is_imported_where_it_is_used_and_compilers_by_the_engine_alone() -> None:
    assert any(COMPILERS & {name.split(".")[0] for name in imported(file)} for file in ENGINE.rglob("*.py"))
    for file in outside_the_engine("platform"):
        assert not of_the_engine(imported(file, inside_functions=False)), f"{file} imports the engine at its top"
        at_top = {name.split(".")[0] for name in imported(file, inside_functions=False)}
        assert not COMPILERS & at_top, f"{file} imports a compiler at its top"


def test_no_symlink_evades_these_rules() -> None:
    for part in MAY_IMPORT:
        assert not [path for path in (ROOT / part, *(ROOT / part).rglob("*")) if path.is_symlink()]


WITHOUT_COMPILERS = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None  # importing them raises ImportError

import torch
import pytorch_lightning as pl
from permlab.datasets.cache import build as build_data
from permlab.datasets.store import GraphStore
from permlab.readouts.catalogue import CATALOGUE, build
from permlab.tasks.data import GraphData
from permlab.tasks.gcn import GCN
from permlab.tasks.model import GraphModel, Head
from permlab.tasks.objectives import Regression
from permlab.tasks.task import GraphTask

name = "synthetic,graphs=20,min_nodes=1,max_nodes=4,features=3"
build_data(name)
store = GraphStore.open(name)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
for method in CATALOGUE:
    d = 1 if method == "power_sums" else 2
    readout = build(method, d, 4)
    model = GraphModel(GCN(3, 5, d), readout, Head(readout, 5))
    before = [parameter.clone() for parameter in model.parameters()]
    data = GraphData(store, store.split(0), ("train", "holdout"), seed=0)
    trainer = pl.Trainer(max_steps=1, accelerator="cpu", **quiet)
    trainer.fit(GraphTask(model, Regression(), ("train", "holdout")), datamodule=data)
    moved = sum(not torch.equal(old, new) for old, new in zip(before, model.parameters()))
    assert trainer.global_step == 1 and moved > 1, method
try:
    import permlab.tasks.engine.door
except ImportError:
    print("trained", len(CATALOGUE))
"""


def test_everything_trains_without_numba_and_llvmlite(cache: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_COMPILERS], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("trained ")


def test_no_folder_shadows_another_package() -> None:
    """At the repository's root `import platform` and `import datasets` must not find ours."""
    for part in MAY_IMPORT:
        allowed = [API / "__init__.py"] if part == "platform" else []
        assert list((ROOT / part).rglob("__init__.py")) == allowed
    code = "import platform; platform.system(); import permlab.platform.cli"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_every_package_is_listed() -> None:
    """A folder with modules that pyproject.toml forgets would be missing from the wheel."""
    listed = (ROOT / "pyproject.toml").read_text()
    for part in MAY_IMPORT:
        for folder in {file.parent for file in (ROOT / part).rglob("*.py")}:
            dotted = "permlab" if folder == API else ".".join(("permlab", *folder.relative_to(ROOT).parts))
            assert f'"{dotted}" = ' in listed, f"{dotted} is not in [tool.setuptools.package-dir]"


def test_readme_has_the_map_of_the_house() -> None:
    """One row per folder at the top, and per folder with modules in one of these; each row links to its folder."""
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()}
    folders = {path for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "."}
    top = {path for path in folders if not any(path.match(pattern) for pattern in ignored)}
    rooms = {room.parent for part in MAY_IMPORT for room in (ROOT / part).glob("*/*.py")}
    _, _, rows = (ROOT / "README.md").read_text().partition("## Map of the house\n")
    mapped = re.findall(r"^\| \[(\S+)/\]\((\S+)\) \| \S.* \|$", rows, re.M)
    assert all(name == link for name, link in mapped)
    assert sorted(name for name, _ in mapped) == sorted(str(path.relative_to(ROOT)) for path in top | rooms)


def test_the_wheel_works_without_the_repository(tmp_path: Path) -> None:
    """Build it, install it into a clean environment, and use it there and from the repository's root."""
    source = tmp_path / "source"
    for item in (*MAY_IMPORT, "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / item).is_dir() else shutil.copy
        source.mkdir(exist_ok=True)
        copy(ROOT / item, source / item)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("permlab-*.whl")
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    # The dependencies are those of this environment, by path: .pth files in there, such as the editable
    # install of permlab itself, are not followed.
    site = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def call(*command: str | Path, cwd: Path) -> str:
        done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    call(python, "-m", "pip", "install", "--no-deps", "--no-index", "--force-reinstall", wheel, cwd=tmp_path)
    where = call(python, "-c", "import permlab.datasets.store as s; print(s.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(environment)
    assert "train" in call(python, "-c", "import permlab; print(permlab.__all__)", cwd=ROOT)
    assert "data" in call(environment / "bin" / "permlab", "--help", cwd=ROOT)
    assert call(python, "-c", "import platform; print(platform.system())", cwd=ROOT).strip()
    assert "200 graphs" in call(environment / "bin" / "permlab", "data", "build", "synthetic", "graphs=200", cwd=ROOT)
    complaints = subprocess.run([python, "-m", "pip", "check"], env=clean, capture_output=True, text=True).stdout
    assert "permlab" not in complaints
