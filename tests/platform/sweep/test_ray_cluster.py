"""Ray on this machine, started for a sweep."""

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from permlab.platform.errors import RunStopped
from permlab.platform.files.json_files import read_json
from permlab.platform.sweep import ray_cluster
from tests.infra.processes import command_line
from tests.platform.calling import DATA, start


@pytest.mark.ray
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


def test_another_thread_may_start_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves signals to the main thread, the only one that may handle them."""
    monkeypatch.setattr(ray_cluster.ray, "init", lambda **options: None)
    monkeypatch.setattr(ray_cluster.ray, "nodes", lambda: [{"Alive": True}])

    def nodes() -> int:
        with ray_cluster.cluster(None) as count:
            return count

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(nodes).result() == 1


def test_a_stop_while_nodes_are_asked_for_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def stopped(address: str | None) -> Iterator[int]:
        raise RunStopped("stopped while Ray was starting", signal.SIGTERM)
        yield 0

    monkeypatch.setattr(ray_cluster, "cluster", stopped)
    with pytest.raises(SystemExit, match="stopped while Ray was starting"):
        ray_cluster.print_nodes()
