"""A sweep as a Ray job: a real head node with token authentication and without PermLab, which comes with the job."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.infra.processes import free_ports
from tests.infra.sweeps import finished_metrics

ROOT = Path(__file__).parents[2]
RAY = [sys.executable, "-m", "ray.scripts.scripts"]
CLI = ("python", "-m", "permlab.platform.cli")
SWEEP = (
    "sweep",
    "dataset=synthetic,graphs=90,max_nodes=8",
    "method=[sum,sort]",
    "d=3",
    "train.epochs=2",
    "track=false",
)


@pytest.fixture(scope="module")
def submit(
    one_ray: None, bare_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """`ray job submit` from the root of the project to a cluster of one node without PermLab."""
    folder = tmp_path_factory.mktemp("job")
    environment = os.environ | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # keeps Ray to loopback
        "PERMLAB_CACHE": str(folder / "cache"),
        "PATH": f"{bare_python.parent}:{os.environ['PATH']}",
    }
    environment.pop("RAY_ADDRESS", None)
    port, dashboard, *others = free_ports(7)
    start = [str(bare_python), *RAY[1:], "start", "--head", "--block", f"--port={port}", "--num-cpus=2"]
    start += [f"--dashboard-port={dashboard}", "--dashboard-host=127.0.0.1", "--include-dashboard=true"]
    names = ("ray-client-server", "dashboard-agent-listen", "dashboard-agent-grpc", "metrics-export")
    start += [f"--{name}-port={number}" for name, number in zip(names, others, strict=False)]
    head = subprocess.Popen(
        [*start, "--disable-usage-stats"],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def call(
        *entrypoint: str, folder: Path | None = None, bring: bool = True, **changes: str
    ) -> subprocess.CompletedProcess[str]:
        command = [*RAY, "job", "submit", "--address", f"http://127.0.0.1:{dashboard}"]
        command += ["--working-dir", str(folder)] if folder else []
        command += ["--runtime-env", "infra/runtime-env.yaml"] if bring else []
        command += ["--", *entrypoint]
        return subprocess.run(command, cwd=ROOT, env=environment | changes, capture_output=True, text=True, timeout=240)

    try:
        _wait_for_dashboard(f"http://127.0.0.1:{dashboard}/api/version", head)
        yield call
    finally:
        head.terminate()  # not `ray stop`, which ends every Ray on the machine
        head.wait(timeout=60)


def _wait_for_dashboard(url: str, head: subprocess.Popen[bytes]) -> None:
    """Until it answers, even if only to ask for a token."""
    limit = time.monotonic() + 180
    while True:
        try:
            urlopen(url, timeout=5).close()
            return
        except HTTPError:
            return
        except OSError:
            assert time.monotonic() < limit and head.poll() is None, "Ray did not start in time"
            time.sleep(0.2)


def test_a_sweep_is_a_job_on_nodes_without_permlab(submit, tmp_path: Path) -> None:
    done = submit(*CLI, *SWEEP, f"runs={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "succeeded" in done.stdout and "holdout MAE" in done.stdout
    assert len(finished_metrics(tmp_path)) == 2


def test_a_readout_of_ones_own_comes_with_the_job(submit, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "my_readout.py").write_text((ROOT / "docs" / "examples" / "my_readout.py").read_text())
    methods = "method=[sum, my_readout.py:MeanAndSpread, pyg:MedianAggregation]"
    done = submit(*CLI, *SWEEP, methods, f"runs={tmp_path}/runs", folder=mine)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "my_readout.py:MeanAndSpread" in done.stdout and len(finished_metrics(tmp_path / "runs")) == 3


def test_nodes_without_permlab_end_a_sweep_with_one_line(submit, tmp_path: Path) -> None:
    driver_alone = ("env", f"PYTHONPATH={ROOT / 'infra'}", *CLI, *SWEEP, f"runs={tmp_path}")
    done = submit(*driver_alone, bring=False)
    assert done.returncode != 0 and "Traceback" not in done.stdout
    (line,) = {line for line in done.stdout.splitlines() if "do not have PermLab" in line}  # Ray repeats its last lines
    assert "infra/runtime-env.yaml" in line and not finished_metrics(tmp_path)


def test_a_job_that_fails_has_the_exit_code_of_its_sweep(submit) -> None:
    wrong = submit(*CLI, *SWEEP, "method=sorr")
    assert wrong.returncode != 0 and "did you mean sort?" in wrong.stdout + wrong.stderr


def test_a_wrong_token_is_refused(submit, tmp_path: Path) -> None:
    done = submit("touch", str(tmp_path / "ran"), RAY_AUTH_TOKEN=secrets.token_hex(32))
    assert done.returncode != 0 and not (tmp_path / "ran").exists()
