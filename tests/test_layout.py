"""The promises of the layout: who may import whom, what must not exist, and that the wheel stands alone."""

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "readouts": {"readouts"},
    "datasets": {"datasets"},
    "tasks": {"tasks", "readouts", "datasets"},
    "platform": {"platform", "tasks", "readouts", "datasets"},
}


def imported(file: Path) -> set[str]:
    """Every module that a file imports, at its top or inside a function."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import; write permlab.…"
            names.add(node.module or "")
    return names


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


def test_no_folder_shadows_another_package() -> None:
    """At the repository's root `import platform` and `import datasets` must not find ours."""
    for part in MAY_IMPORT:
        assert not list((ROOT / part).rglob("__init__.py"))
    code = "import platform; platform.system(); import permlab.platform.cli"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_every_package_is_listed() -> None:
    """A folder with modules that pyproject.toml forgets would be missing from the wheel."""
    listed = (ROOT / "pyproject.toml").read_text()
    for part in MAY_IMPORT:
        for folder in {file.parent for file in (ROOT / part).rglob("*.py")}:
            dotted = ".".join(("permlab", *folder.relative_to(ROOT).parts))
            assert f'"{dotted}" = ' in listed, f"{dotted} is not in [tool.setuptools.package-dir]"


def test_the_wheel_stands_alone(tmp_path: Path) -> None:
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
    assert "data" in call(environment / "bin" / "permlab", "--help", cwd=ROOT)
    assert call(python, "-c", "import platform; print(platform.system())", cwd=ROOT).strip()
    assert "200 graphs" in call(environment / "bin" / "permlab", "data", "build", "synthetic", "graphs=200", cwd=ROOT)
    complaints = subprocess.run([python, "-m", "pip", "check"], env=clean, capture_output=True, text=True).stdout
    assert "permlab" not in complaints
