"""`permlab doctor` finds what is wrong, says how to fix it, and waits for nobody."""

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
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("RAY_ADDRESS", "MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


def findings(permlab) -> tuple[int, dict[str, dict[str, str]]]:
    code, out, _ = permlab("doctor", "--json")
    document = json.loads(out)
    assert document["ok"] == (code == 0)
    return code, {finding["name"]: finding for finding in document["findings"]}


def test_a_healthy_machine(permlab, cache: Path) -> None:
    code, found = findings(permlab)
    assert code == 0 and {finding["state"] for finding in found.values()} <= {"ok", "note"}
    assert f"ray {version('ray')}" in found["versions"]["found"]
    assert str(cache) in found["cache"]["found"] and "CPU cores" in found["accelerator"]["found"]
    assert ("training steps" in found) == (not found["accelerator"]["found"].startswith("none"))
    code, out, err = permlab("doctor")
    assert code == 0 and err == "" and len(out.splitlines()) <= 24, "more than a screen"


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, object]]]:
    """Something that answers as an MLflow server with basic authentication does; `state` says what."""
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
    assert findings(permlab)[1]["tracking"]["found"] == f"MLflow {version('mlflow')} at {uri}, as anybody"
    state["authorization"] = "Basic bWU6cmlnaHQ="  # me:right
    code, found = findings(permlab)
    assert code == 1 and "refuses anybody without a password" in found["tracking"]["found"]
    assert "MLFLOW_TRACKING_PASSWORD" in found["tracking"]["mend"]
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "wrong")
    code, found = findings(permlab)
    assert code == 1 and "refuses user me" in found["tracking"]["found"]
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "right")
    code, found = findings(permlab)
    assert code == 0 and found["tracking"]["found"].endswith("as me")
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME")
    monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.replace("://", "://me:right@"))
    code, found = findings(permlab)
    assert code == 0 and found["tracking"]["found"].endswith(f"at {uri}, as me")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.replace("://", "://me:wrong@"))
    code, found = findings(permlab)
    assert code == 1 and "refuses user me" in found["tracking"]["found"] and "wrong" not in found["tracking"]["found"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.replace("://", "://me:right@"))
    state["version"] = "2.1.0"
    assert "use the same on both sides" in findings(permlab)[1]["tracking"]["mend"]


def test_nobody_is_there(permlab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    code, found = findings(permlab)
    assert code == 1
    assert "cannot be reached" in found["tracking"]["found"] and "start it" in found["tracking"]["mend"]
    assert found["ray"]["found"] == "no Ray cluster at 127.0.0.1:1: Connection refused"
    assert "RAY_AUTH_TOKEN_PATH" in found["ray"]["mend"]
    code, out, _ = permlab("doctor")
    assert code == 1 and "→ start it" in out


def test_a_server_that_says_nothing(permlab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permlab.platform.tracking.store_check.PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{silent.getsockname()[1]}")
        code, found = findings(permlab)
    assert code == 1 and "timed out" in found["tracking"]["found"]


def test_a_store_in_a_file(permlab, tmp_path: Path) -> None:
    store = tmp_path / "runs" / "mlflow.db"
    assert "made by the first run" in findings(permlab)[1]["tracking"]["found"]
    make_store(store)
    code, found = findings(permlab)
    assert code == 0 and found["tracking"]["found"].endswith(": 0 runs")
    whole = store.read_bytes()
    for content in (b"garbage" * 1000, whole[:8192] + b"x" * 40960 + whole[49152:], sqlite3_file(tmp_path / "other")):
        store.write_bytes(content)
        code, found = findings(permlab)
        assert code == 1 and found["tracking"]["state"] == "broken" and str(store) in found["tracking"]["found"]
        assert "permlab deliver" in found["tracking"]["mend"]
    store.unlink()
    store.mkdir()
    assert "cannot be written to" in findings(permlab)[1]["tracking"]["found"]


def sqlite3_file(path: Path) -> bytes:
    """A database, but not one of MLflow."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE things (name TEXT)")
    return path.read_bytes()


def test_folders_that_cannot_be_written_to(permlab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PERMLAB_CACHE", str(tmp_path / "file" / "cache"))
    code, found = findings(permlab)
    assert code == 1 and "cannot be written to" in found["cache"]["found"]
    assert "PERMLAB_CACHE" in found["cache"]["mend"]


def test_training_steps_on_an_accelerator(tmp_path: Path) -> None:
    """The device is the simulated one of tests/devices: torch finds it in the path, as it finds those of vendors."""
    command = [sys.executable, "-m", "permlab.platform.cli", "doctor", "--json"]
    there = {**os.environ, "PYTHONPATH": str(DEVICES), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=there, cwd=tmp_path, capture_output=True, text=True)
    found = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert found["accelerator"]["found"].startswith("SIM")
    assert found["training steps"]["state"] == "ok"
    assert all(f"{method} " in found["training steps"]["found"] for method in PAPER_METHODS)


AGREES = '{"method": "sort", "problem": "", "device_seconds": 0.002, "cpu_seconds": 0.003}'
DIFFERS = '{"method": "sum", "problem": "the loss differs by 0.3", "device_seconds": 0.1, "cpu_seconds": 0.1}'


@pytest.mark.parametrize(
    ("what_happens", "state", "words"),
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
    what_happens: str, state: str, words: str, permlab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, body in (("nvidia-smi", "exit 0"), ("python", what_happens)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr("permlab.platform.doctor.checks.STEPS_PATIENCE", 1 if "sleep" in what_happens else 60)
    steps = findings(permlab)[1]["training steps"]
    assert steps["state"] == state and words in steps["found"]
    assert ("accelerator=cpu" in steps["mend"]) == (state == "broken")
    assert state == "ok" or "sort" not in steps["found"]
