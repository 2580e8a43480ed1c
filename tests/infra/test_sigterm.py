"""What a batch system does at the end of an allocation: SIGTERM, a while later SIGKILL; then the next job."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from permlab.platform.files.json_files import read_json
from permlab.platform.run.histories import read_history
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import read_settings

pytestmark = pytest.mark.cluster
GRID = ["name=ends", "dataset=synthetic,graphs=300,max_nodes=12,task=classification", "method=[sum,sort]", "d=3"]
GRID += ["seed=[0,1]", "train.epochs=400", "train.checkpoint_every=1000000", "train.eval_every=200", "track=false"]
NOTICE = 20  # seconds between the two signals


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "permlab.platform.cli", "sweep", *GRID]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def session(leader: int) -> list[psutil.Process]:
    """The processes of a session, those of Ray among them."""
    found = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError):
            if os.getsid(process.pid) == leader:
                found.append(process)
    return found


def metrics(runs: Path) -> dict[str, Any]:
    found = {path.parent.name: read_json(path) for path in runs.glob("cells/*/result.json")}
    return {key: result["metrics"] for key, result in found.items() if result["status"] == "FINISHED"}


def test_the_next_job_goes_on_where_sigterm_found_this_one(one_ray, wait_for, tmp_path: Path) -> None:
    """No cell checkpoints on its own here: what is kept was saved between the two signals."""
    from permlab.platform.run.cell import run_cell

    runs = tmp_path / "runs"
    job = start(tmp_path)
    wait_for(lambda: sum(len(read_history(f.parent)) for f in runs.glob("cells/*/history.jsonl")) > 20, job)
    ours = {process.pid for process in session(job.pid)}
    listening = [c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN and c.pid in ours]
    assert listening and {c.laddr.ip for c in listening} <= {"127.0.0.1", "::ffff:127.0.0.1"}, "open beyond loopback"
    job.send_signal(signal.SIGTERM)
    try:
        _, err = job.communicate(timeout=NOTICE)
        assert job.returncode == 128 + signal.SIGTERM and "the same command resumes" in err, err
    except subprocess.TimeoutExpired:
        pass
    finally:
        for process in session(job.pid):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        job.communicate()
    saved = list(runs.glob("cells/*/checkpoint.pt"))
    assert saved and len(metrics(runs)) < 4
    following = start(tmp_path)
    _, err = following.communicate(timeout=600)
    assert following.returncode == 0, err
    cells = read_settings(SweepSettings, [*GRID, f"runs={tmp_path / 'plain'}"]).cells()
    assert metrics(runs) == {result["key"]: result["metrics"] for result in map(run_cell, cells)}
