"""Start the MLflow dashboard on the configured store and print the address of every sweep's page; Ctrl-C ends it.

permlab ui [--port 5000]
"""

import argparse
import ctypes
import os
import signal
import socket
import subprocess
import sys

from permlab.platform.display.console import err
from permlab.platform.errors import ConfigError
from permlab.platform.settings.folders import runs_folder
from permlab.platform.tracking.read import sweep_pages
from permlab.platform.tracking.store import make_store, sqlite_file, store_errors, tracking_uri

HOST = "127.0.0.1"
PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=5000, help="port on this machine (default 5000)")
    parser.add_argument("--runs", default="runs", help="the runs folder (default: runs)")


def run(args: argparse.Namespace) -> int:
    runs = runs_folder(args.runs)
    uri = tracking_uri(runs)
    if uri.startswith("http"):
        err.print(f"the dashboard is the tracking server itself: {uri}", markup=False)
        return 0
    check_port(args.port)
    if path := sqlite_file(uri):
        with store_errors(uri):
            make_store(path)
    err.print(f"http://{HOST}:{args.port} (Ctrl-C ends it)", markup=False)
    dashboard = start_dashboard(uri, args.port)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: dashboard.terminate())  # it passes the signal on to its server
    with store_errors(uri):
        for name, place in sweep_pages(runs).items():  # while the server starts
            err.print(f"  {name}: http://{HOST}:{args.port}/{place}", markup=False, soft_wrap=True)
    return dashboard.wait()


def start_dashboard(uri: str, port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mlflow", "ui", "--host", HOST, "--port", str(port), "--workers", "1"]
    settings = {
        "MLFLOW_BACKEND_STORE_URI": uri,  # not on the command line, which every user can read
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # saves eight processes that the dashboard does not need
    }
    on_linux = sys.platform == "linux"
    return subprocess.Popen(command, env=os.environ | settings, preexec_fn=end_with_parent if on_linux else None)


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
