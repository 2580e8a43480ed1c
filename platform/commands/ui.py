"""Start the MLflow dashboard on the configured store and print its address; Ctrl-C ends it.

permlab ui [--port 5000]
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from permlab.platform.console import err
from permlab.platform.tracking import make_store, sqlite_file, tracking_uri


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=5000, help="port on this machine (default 5000)")
    parser.add_argument("--runs", default="runs", help="the runs folder (default: runs)")


def run(args: argparse.Namespace) -> int:
    uri = tracking_uri(Path(args.runs))
    if uri.startswith("http"):
        err.print(f"the dashboard is the tracking server itself: {uri}", markup=False)
        return 0
    if path := sqlite_file(uri):
        make_store(path)
    err.print(f"http://127.0.0.1:{args.port} (Ctrl-C ends it)", markup=False)
    command = [sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--port", str(args.port)]
    store = {"MLFLOW_BACKEND_STORE_URI": uri}  # not among the command's words, which everybody may read
    process = subprocess.Popen(command, env=os.environ | store)
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        return 0
