"""The stack of infra/ on this machine, for the tests that need all of it."""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.infra.processes import processes_of_session

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has PermLab's dependencies, but not PermLab."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    # .pth files in these folders, such as the editable install of permlab itself, are not followed
    dependencies = [path for path in sys.path if path.endswith("site-packages")]
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text("\n".join(dependencies) + "\n")
    assert subprocess.run([python, "-c", "import ray"], cwd=folder).returncode == 0
    assert subprocess.run([python, "-c", "import permlab"], cwd=folder, capture_output=True).returncode != 0
    return python


class Stack:
    """`infra/local-cluster` in a folder of its own."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder, self.python = folder, python

    def call(self, action: str, *options: str) -> str:
        command = [self.python, ROOT / "infra" / "local-cluster", action, "--folder", self.folder / "cluster", *options]
        environment = os.environ | {"PERMLAB_CACHE": str(self.folder / "cache")}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def environment(self) -> dict[str, str]:
        lines = (line.removeprefix("export ").partition("=") for line in self.call("env").splitlines())
        return dict(os.environ) | {name: value for name, _, value in lines}

    @property
    def state(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "cluster" / "state.json").read_text()))

    def processes(self, part: str) -> list[psutil.Process]:
        """All processes of a part's session; PostgreSQL's children have sessions of their own."""
        return processes_of_session(self.state["parts"][part]["pid"])

    def kill(self, part: str) -> None:
        """As if its machine lost power."""
        doomed = self.processes(part)
        assert doomed
        for process in doomed:
            process.kill()
        psutil.wait_procs(doomed, timeout=60)


@pytest.fixture(scope="module")
def stack(one_ray: None, bare_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """PostgreSQL, MLflow and two Ray nodes that do not have PermLab installed."""
    stack = Stack(tmp_path_factory.mktemp("stack"), bare_python)
    try:
        stack.call("start", "--nodes", "2", "--cpus", "1")
        started = [process for part in stack.state["parts"] for process in stack.processes(part)]
        assert len(started) > 10
        yield stack
    finally:
        stack.call("stop")
    assert not [process for process in started if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
