"""The end of an allocation on a batch system: SIGTERM, a while later SIGKILL, then the next job."""

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.infra.processes import listening_addresses, processes_of_session, wait_for
from tests.infra.sweeps import epochs_stored, finished_metrics, undisturbed_metrics

pytestmark = pytest.mark.cluster
GRID = ["name=ends", "dataset=synthetic,graphs=300,max_nodes=12,task=classification", "method=[sum,sort]", "d=3"]
GRID += ["seed=[0,1]", "train.epochs=400", "train.checkpoint_every=1000000", "train.eval_every=200", "track=false"]
NOTICE = 20  # seconds between the two signals


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "permlab.platform.cli", "sweep", *GRID]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_the_next_job_resumes_where_sigterm_stopped_this_one(one_ray, tmp_path: Path) -> None:
    """No cell checkpoints on its own here: every checkpoint was saved between the two signals."""
    runs = tmp_path / "runs"
    job = start(tmp_path)
    wait_for(lambda: epochs_stored(runs) > 20, job)
    addresses = listening_addresses(processes_of_session(job.pid))
    assert addresses and set(addresses) <= {"127.0.0.1", "::ffff:127.0.0.1"}, "open beyond loopback"
    job.send_signal(signal.SIGTERM)
    try:
        _, err = job.communicate(timeout=NOTICE)
        assert job.returncode == 128 + signal.SIGTERM and "the same command resumes" in err, err
    except subprocess.TimeoutExpired:
        pass
    finally:
        for process in processes_of_session(job.pid):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        job.communicate()
    saved = list(runs.glob("cells/*/checkpoint.pt"))
    assert saved and len(finished_metrics(runs)) < 4
    following = start(tmp_path)
    _, err = following.communicate(timeout=600)
    assert following.returncode == 0, err
    assert finished_metrics(runs) == undisturbed_metrics(GRID, tmp_path / "plain")
