"""Ray on this machine, started for a sweep."""

import signal
import time
from pathlib import Path

import psutil
import pytest

from permlab.platform.files.json_files import read_json
from tests.infra.processes import command_line
from tests.platform.calling import DATA, start

pytestmark = pytest.mark.ray


def test_a_ctrl_c_while_ray_starts_leaves_no_process_behind(one_ray: None, tmp_path: Path) -> None:
    """Also if it comes when Ray has already started agents, which outlive an interrupted start."""
    sweep = start(tmp_path, "sweep", DATA, "name=mine", "method=sum", "d=2", "track=false")
    limit = time.monotonic() + 120
    begun: list[psutil.Process] = []
    while not any("Agent" in command_line(process) for process in begun):
        assert sweep.poll() is None and time.monotonic() < limit
        begun = psutil.Process(sweep.pid).children(recursive=True)
        time.sleep(0.02)
    sweep.send_signal(signal.SIGINT)
    err = sweep.communicate(timeout=60)[1]
    assert sweep.returncode == 130
    assert err.splitlines()[-1].startswith("permlab sweep: stopped while Ray was starting")
    assert not psutil.wait_procs(begun, timeout=30)[1]
    document = read_json(tmp_path / "runs" / "sweeps" / "mine" / "sweep.json")
    assert document and document["status"] == "STOPPED"
