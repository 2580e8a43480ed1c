"""`permlab doctor` finds what is wrong, says how to fix it, and never waits forever."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from pathlib import Path

import pytest

from permlab.platform.tracking.store import make_store
from permlab.readouts.names import PAPER_METHODS

DEVICES = Path(__file__).parents[2] / "devices"


@pytest.fixture(autouse=True)
def no_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("RAY_ADDRESS", "MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


def findings(permlab) -> tuple[int, dict[str, dict[str, str]]]:
    code, out, _ = permlab("doctor", "--json")
    document = json.loads(out)
    assert document["ok"] == (code == 0)
    return code, {finding["name"]: finding for finding in document["findings"]}


def test_a_healthy_machine(permlab, cache: Path) -> None:
    code, checks = findings(permlab)
    assert code == 0 and {finding["state"] for finding in checks.values()} <= {"ok", "note"}
    assert f"ray {version('ray')}" in checks["versions"]["detail"]
    assert str(cache) in checks["cache"]["detail"] and "CPU cores" in checks["accelerator"]["detail"]
    assert ("training steps" in checks) == (not checks["accelerator"]["detail"].startswith("none"))
    code, out, err = permlab("doctor")
    assert code == 0 and err == "" and len(out.splitlines()) <= 24, "more than a screen"


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, object]]]:
    """A stand-in for an MLflow server with basic authentication; `state` sets its answers."""
    state: dict[str, object] = {"version": version("mlflow"), "authorization": None}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = state["authorization"]
            known = wanted is None or self.headers.get("Authorization") == wanted or self.path == "/version"
            self.send_response(200 if known else 401)
            if not known:
                self.send_header("WWW-Authenticate", 'Basic realm="mlflow"')
            self.end_headers()
            self.wfile.write(str(state["version"]).encode())

        def log_message(self, *words: object) -> None:
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{http.server_port}", state
    http.shutdown()
    http.server_close()


def test_the_tracking_server(permlab, server, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, state = server
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    detail = findings(permlab)[1]["tracking"]["detail"]
    assert version("mlflow") in detail and uri in detail and "anonymous" in detail
    state["authorization"] = "Basic bWU6cmlnaHQ="  # me:right
    code, checks = findings(permlab)
    assert code == 1 and "refuses anonymous" in checks["tracking"]["detail"]
    assert "MLFLOW_TRACKING_PASSWORD" in checks["tracking"]["fix"]
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "wrong")
    code, checks = findings(permlab)
    assert code == 1 and "refuses user me" in checks["tracking"]["detail"]
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "right")
    code, checks = findings(permlab)
    assert code == 0 and checks["tracking"]["detail"].endswith("as me")
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME")
    monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.replace("://", "://me:right@"))
    code, checks = findings(permlab)
    assert code == 0 and checks["tracking"]["detail"].endswith(f"at {uri}, as me")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.replace("://", "://me:wrong@"))
    code, checks = findings(permlab)
    detail = checks["tracking"]["detail"]
    assert code == 1 and "refuses user me" in detail and "wrong" not in detail
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.replace("://", "://me:right@"))
    state["version"] = "2.1.0"
    code, checks = findings(permlab)
    assert code == 0 and checks["tracking"]["state"] == "note"
    assert "2.1.0" in checks["tracking"]["detail"] and version("mlflow") in checks["tracking"]["fix"]


def test_nothing_listens_at_the_addresses(permlab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    code, checks = findings(permlab)
    assert code == 1
    assert "cannot be reached" in checks["tracking"]["detail"] and "start it" in checks["tracking"]["fix"]
    assert "127.0.0.1:1: Connection refused" in checks["ray"]["detail"]
    assert "RAY_AUTH_TOKEN_PATH" in checks["ray"]["fix"]
    code, out, _ = permlab("doctor")
    assert code == 1 and "→ start it" in out


def test_a_server_that_never_answers(permlab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permlab.platform.tracking.store_check.PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{silent.getsockname()[1]}")
        code, checks = findings(permlab)
    assert code == 1 and "timed out" in checks["tracking"]["detail"]


def test_a_store_in_a_file(permlab, tmp_path: Path) -> None:
    store = tmp_path / "runs" / "mlflow.db"
    assert "first run" in findings(permlab)[1]["tracking"]["detail"]
    make_store(store)
    code, checks = findings(permlab)
    assert code == 0 and checks["tracking"]["detail"].endswith(": 0 runs")
    whole = store.read_bytes()
    for content in (b"garbage" * 1000, whole[:8192] + b"x" * 40960 + whole[49152:], sqlite3_file(tmp_path / "other")):
        store.write_bytes(content)
        code, checks = findings(permlab)
        assert code == 1 and checks["tracking"]["state"] == "broken" and str(store) in checks["tracking"]["detail"]
        assert "permlab deliver" in checks["tracking"]["fix"]
    store.unlink()
    store.mkdir()
    assert "cannot be written to" in findings(permlab)[1]["tracking"]["detail"]


def sqlite3_file(path: Path) -> bytes:
    """A database, but not MLflow's."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE things (name TEXT)")
    return path.read_bytes()


def test_folders_that_cannot_be_written_to(permlab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PERMLAB_CACHE", str(tmp_path / "file" / "cache"))
    code, checks = findings(permlab)
    assert code == 1 and "cannot be written to" in checks["cache"]["detail"]
    assert "PERMLAB_CACHE" in checks["cache"]["fix"]


def test_training_steps_on_an_accelerator(tmp_path: Path) -> None:
    """The device is the simulated one of tests/devices, which torch finds in the path like a vendor's."""
    command = [sys.executable, "-m", "permlab.platform.cli", "doctor", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(DEVICES), "OMP_NUM_THREADS": "1"}
    process = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    checks = {finding["name"]: finding for finding in json.loads(process.stdout)["findings"]}
    assert checks["accelerator"]["detail"].startswith("SIM")
    assert checks["training steps"]["state"] == "ok"
    assert all(f"{method} " in checks["training steps"]["detail"] for method in PAPER_METHODS)


AGREES = '{"method": "sort", "problem": "", "device_seconds": 0.002, "cpu_seconds": 0.003}'
DIFFERS = '{"method": "sum", "problem": "the loss differs by 0.3", "device_seconds": 0.1, "cpu_seconds": 0.1}'


@pytest.mark.parametrize(
    ("script", "state", "words"),
    [
        (f"echo '{AGREES}'", "ok", "sort 2.0 / 3.0"),
        (f"echo '{AGREES}'; echo '{DIFFERS}'", "broken", "sum: the loss differs by 0.3"),
        (
            f"echo '{AGREES}'; echo 'CUDA error: an illegal memory access' >&2; exit 1",
            "broken",
            "illegal memory access",
        ),
        ("kill -SEGV $$", "broken", "-11"),
        ("exec sleep 60", "broken", "after 1 seconds"),
    ],
    ids=["agrees", "differs", "fails", "crashes", "hangs"],
)
def test_whatever_an_accelerator_does(
    script: str, state: str, words: str, permlab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, body in (("nvidia-smi", "exit 0"), ("python", script)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr("permlab.platform.doctor.checks.STEPS_PATIENCE", 1 if "sleep" in script else 60)
    steps = findings(permlab)[1]["training steps"]
    assert steps["state"] == state and words in steps["detail"]
    assert ("accelerator=cpu" in steps["fix"]) == (state == "broken")
    assert state == "ok" or "sort" not in steps["detail"]
