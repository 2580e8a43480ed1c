"""Start the MLflow dashboard on the configured store and print the addresses of sweeps and tunings; Ctrl-C ends it.

permlab ui [--port 5000] [--no-browser]

On a desktop it also opens the newest sweep in the browser. What the server says is in dashboard.log in the runs folder.
"""

import argparse
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit
from urllib.request import urlopen

from permlab.platform.display.console import err
from permlab.platform.errors import ConfigError, RunError
from permlab.platform.settings.folders import runs_folder
from permlab.platform.tracking.read import sweep_pages
from permlab.platform.tracking.store import make_store, sqlite_file, store_errors, tracking_uri

HOST = "127.0.0.1"
LOG = "dashboard.log"
PATIENCE = 10.0  # seconds that the server gets to end
PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>


class Stopped(BaseException):
    """Ctrl-C, or a signal that ends the dashboard."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=5000, help="port on this machine (default 5000)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.add_argument("--runs", default="runs", help="the runs folder (default: runs)")


def run(args: argparse.Namespace) -> int:
    runs = runs_folder(args.runs)
    uri = tracking_uri(runs)
    opens = not args.no_browser and has_browser()
    if uri.startswith("http"):
        err.print(f"the dashboard is the tracking server itself: {uri}", markup=False)
        parts = urlsplit(uri)
        address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()  # no password in a link
        show(pages_of(runs, address.rstrip("/")), opens)
        return 0
    check_port(args.port)
    if path := sqlite_file(uri):
        with store_errors(uri):
            make_store(path)
    address = f"http://{HOST}:{args.port}"
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    with suppress(Stopped), dashboard(uri, args.port, runs / LOG) as server:
        err.print(f"{address} (Ctrl-C ends it)", markup=False)
        pages = pages_of(runs, address)  # while the server starts
        await_answer(f"{address}/health", server, runs / LOG)
        show(pages, opens)
        server.wait()
        raise RunError(f"the dashboard has ended; {runs / LOG} says why")
    return 0


def stop(*_: object) -> NoReturn:
    raise Stopped


def pages_of(runs: Path, address: str) -> dict[str, str]:
    """The address of the page of every sweep and tuning, the newest first."""
    with store_errors(tracking_uri(runs)):
        return {name: f"{address}/{place}" for name, place in sweep_pages(runs).items()}


def show(pages: dict[str, str], opens: bool) -> None:
    """Print the addresses, and open the first."""
    for name, page in pages.items():
        err.print(f"  {name}: {page}", markup=False, soft_wrap=True)
    if opens and pages:
        import webbrowser

        webbrowser.open(next(iter(pages.values())))


def has_browser() -> bool:
    """Is there a person at a terminal of a desktop? Elsewhere a browser of text might take over the terminal."""
    if not err.is_terminal or "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform in ("darwin", "win32") or bool({"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ))


@contextmanager
def dashboard(uri: str, port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """MLflow's server, in a process group of its own, all of which is ended with the block."""
    command = [sys.executable, "-m", "mlflow", "ui", "--host", HOST, "--port", str(port), "--workers", "1"]
    command += ["--uvicorn-opts", "--log-level warning"]
    settings = {
        "MLFLOW_BACKEND_STORE_URI": uri,  # not on the command line, which every user can read
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # saves eight processes that the dashboard does not need
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    on_linux = sys.platform == "linux"
    with log.open("wb") as file:
        server = subprocess.Popen(
            command,
            env=os.environ | settings,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            preexec_fn=end_with_parent if on_linux else None,
        )
    try:
        yield server
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # an impatient second Ctrl-C must not leave the server behind
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            server.wait(PATIENCE)
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def await_answer(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server answers: its first start takes some seconds."""
    while True:
        with suppress(OSError), urlopen(url, timeout=5):
            return
        if server.poll() is not None:
            raise RunError(f"the dashboard did not start; {log} says why")
        time.sleep(0.1)


def end_with_parent() -> None:
    """Linux sends this process SIGTERM when its parent dies, even by SIGKILL."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def check_port(port: int) -> None:
    """Without this check MLflow would show a traceback and still exit with code 0."""
    if not 1 <= port <= 65535:
        raise ConfigError(f"--port {port} is not a port; choose from 1 to 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ConfigError(f"--port {port} cannot be used: {error.strerror}; choose another") from None
