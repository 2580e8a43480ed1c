"""A sweep as a Ray job: a real head node with token authentication, PermLab shipped as a wheel."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from permlab.platform.json_files import read_json

pytestmark = pytest.mark.ray
ROOT = Path(__file__).parents[2]
RAY = str(Path(sys.executable).parent / "ray")
SWEEP = [
    "sweep",
    "dataset=synthetic,graphs=90,max_nodes=8",
    "method=[sum,sort]",
    "d=3",
    "train.epochs=2",
    "track=false",
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def submit(
    one_ray: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """`ray job submit` to a cluster of its own, from a project folder that holds the wheel and the runtime env."""
    folder = tmp_path_factory.mktemp("job")
    environment = os.environ | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "PERMLAB_CACHE": str(folder / "cache"),
    }
    environment.pop("RAY_ADDRESS", None)
    source = folder / "source"
    source.mkdir()
    for item in ("datasets", "platform", "readouts", "tasks", "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / item).is_dir() else shutil.copy
        copy(ROOT / item, source / item)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    port, dashboard = free_port(), free_port()
    start = [RAY, "start", "--head", f"--port={port}", f"--dashboard-port={dashboard}", "--num-cpus=2"]
    start += ["--dashboard-host=127.0.0.1", "--include-dashboard=true", "--disable-usage-stats", "--block"]
    head = subprocess.Popen(
        start, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    _wait_for_port(dashboard)

    def call(*entrypoint: str, **changes: str) -> subprocess.CompletedProcess[str]:
        command = [RAY, "job", "submit", "--address", f"http://127.0.0.1:{dashboard}"]
        command += ["--runtime-env", str(ROOT / "infra" / "runtime-env.yaml"), "--", *entrypoint]
        return subprocess.run(
            command, cwd=folder, env=environment | changes, capture_output=True, text=True, timeout=240
        )

    yield call
    os.killpg(head.pid, signal.SIGTERM)  # not `ray stop`, which ends every Ray on the machine
    head.wait(timeout=60)


def _wait_for_port(port: int, seconds: float = 90) -> None:
    limit = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < limit, "Ray's dashboard did not start in time"
            time.sleep(0.2)


def test_a_sweep_is_a_job_and_its_exit_code_is_the_jobs(submit, tmp_path: Path) -> None:
    done = submit("python", "-m", "permlab.platform.cli", *SWEEP, f"runs={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "succeeded" in done.stdout and "holdout MAE" in done.stdout
    assert [read_json(path)["status"] for path in tmp_path.glob("cells/*/result.json")] == ["FINISHED"] * 2
    wrong = submit("python", "-m", "permlab.platform.cli", *SWEEP, "method=sorr")
    assert wrong.returncode != 0 and "did you mean sort?" in wrong.stdout + wrong.stderr


def test_nodes_need_not_have_permlab(submit) -> None:
    done = submit("python", "-c", "import permlab.platform.cli as cli; print(cli.__file__)")
    assert done.returncode == 0 and "runtime_resources" in done.stdout, done.stdout + done.stderr


def test_a_wrong_token_is_refused(submit) -> None:
    done = submit("python", "--version", RAY_AUTH_TOKEN=secrets.token_hex(32))
    assert done.returncode != 0
