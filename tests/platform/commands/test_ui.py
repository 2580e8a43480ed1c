"""`permlab ui`: MLflow's dashboard, which leaves no process behind."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from permlab.platform.tracking.store import connect
from tests.platform.calling import free_port, printed_link, start


def listening(port: int) -> list[int | None]:
    connections = psutil.net_connections("tcp")
    return [
        connection.pid
        for connection in connections
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
    ]


def test_however_it_is_ended_it_leaves_no_server_behind(tmp_path: Path) -> None:
    ends = (signal.SIGTERM, signal.SIGKILL) if sys.platform == "linux" else (signal.SIGTERM,)
    ports = [free_port() for _ in ends]
    dashboards = [start(tmp_path, "ui", "--port", str(port), "--runs", f"runs-{port}") for port in ports]
    processes: list[psutil.Process] = []
    try:
        for port, dashboard in zip(ports, dashboards, strict=True):
            wait_for(f"http://127.0.0.1:{port}/health", dashboard)
            assert listening(port)
            processes += psutil.Process(dashboard.pid).children(recursive=True)
    finally:
        for end, dashboard in zip(ends, dashboards, strict=True):
            dashboard.send_signal(end)
    err = dashboards[0].communicate(timeout=60)[1]
    assert dashboards[0].returncode == 0 and err.startswith(f"http://127.0.0.1:{ports[0]} ")
    assert "Traceback" not in err
    _, alive = psutil.wait_procs(processes, timeout=30)
    assert not alive and not any(listening(port) for port in ports)


def test_ended_while_it_starts_it_leaves_no_server_behind(tmp_path: Path) -> None:
    dashboard = start(tmp_path, "ui", "--port", str(free_port()))
    assert dashboard.stderr is not None
    dashboard.stderr.readline()  # the server's process has been started
    processes = psutil.Process(dashboard.pid).children(recursive=True)
    assert processes
    dashboard.send_signal(signal.SIGTERM)
    dashboard.communicate(timeout=60)
    assert dashboard.returncode == 0
    assert not psutil.wait_procs(processes, timeout=30)[1]


def wait_for(url: str, process: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + 120
    while True:
        try:
            with urlopen(url, timeout=5) as answer:
                assert answer.status == 200
                return
        except OSError:
            assert time.monotonic() < limit and process.poll() is None
            time.sleep(0.1)


@pytest.mark.parametrize("port", ["99999", "0", "-1"])
def test_a_number_that_is_not_a_port(tmp_path: Path, permlab, port: str) -> None:
    code, out, err = permlab("ui", "--port", port, "--runs", str(tmp_path))
    assert (code, out, err.count("\n")) == (2, "", 1) and "choose from 1 to 65535" in err


def test_a_port_that_is_taken(tmp_path: Path, permlab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, out, err = permlab("ui", "--port", str(taken.getsockname()[1]), "--runs", str(tmp_path))
    assert (code, out, err.count("\n")) == (2, "", 1) and "in use" in err


def test_it_prints_the_page_of_every_sweep(tmp_path: Path) -> None:
    client = connect(tmp_path / "runs")
    number = client.create_experiment("mine")
    port = free_port()
    dashboard = start(tmp_path, "ui", "--port", str(port))
    try:
        link = printed_link(dashboard, "mine")
        urlopen(
            f"http://127.0.0.1:{port}/ajax-api/2.0/mlflow/experiments/get?experiment_id={number}", timeout=30
        ).close()
    finally:
        dashboard.send_signal(signal.SIGTERM)
    assert link == f"http://127.0.0.1:{port}/#/experiments/{number}/runs?workflowType=machine_learning"
    assert dashboard.communicate(timeout=60)[1] == ""  # what the server says is in a file
    assert "Registry store URI" in (tmp_path / "runs" / "dashboard.log").read_text()
