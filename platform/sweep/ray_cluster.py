"""The Ray cluster that a sweep or a tuning runs on: joined or started, its nodes, and how many cells fit on them."""

import json
import logging
import math
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import ray
from ray.autoscaler.sdk import request_resources

from permlab.platform.display.console import note
from permlab.platform.errors import ConfigError, RunStopped
from permlab.platform.run.signals import stop_on_signal
from permlab.platform.settings.sweep import ResourceSettings
from permlab.platform.sweep.ray_private import loopback, print_errors_with


@contextmanager
def cluster(address: str | None) -> Iterator[int]:
    """Join the cluster at `address` (or RAY_ADDRESS), else start Ray on this machine; yields the number of nodes."""
    address = address or os.environ.get("RAY_ADDRESS")
    if address and (Path("~/.ray/auth_token").expanduser().exists() or "RAY_AUTH_TOKEN" in os.environ):
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # a cluster's default; Ray on this machine sets it itself
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if address and address not in ("auto", "local"):
        _reach(address)
    os.environ.setdefault("RAY_task_oom_retries", "4")  # by default Ray never gives up on a cell that does not fit
    print_errors_with(_note_error)
    # A Ctrl-C waits until Ray has started: one that is half started leaves processes behind
    in_main_thread = threading.current_thread() is threading.main_thread()  # the only one that may handle signals
    with stop_on_signal() if in_main_thread else nullcontext(lambda: 0) as stop_signal:
        try:
            with loopback(only=not address):
                ray.init(
                    address=address or "local",
                    include_dashboard=False if not address else None,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    namespace="permlab",
                )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigError(f"no Ray cluster at {address}: {str(error).splitlines()[0]}") from None
    try:
        if number := stop_signal():
            raise RunStopped("stopped while Ray was starting; the same command starts again", number)
        yield alive_nodes()
    finally:
        ray.shutdown()


def alive_nodes() -> int:
    return len([node for node in ray.nodes() if node["Alive"]])


def starting(address: str | None) -> str:
    """What `cluster` does, for people."""
    address = address or os.environ.get("RAY_ADDRESS")
    return f"joining the Ray cluster at {address}" if address else "starting Ray on this machine"


def _note_error(data: dict[str, Any], **_: Any) -> None:
    """Print an error of the cluster itself in one line."""
    text = str(data["lines"][0])
    if "running low on memory" in text:
        node = re.search(r"IP: ([^,)]+)", text)
        note(
            f"Ray ended a worker: memory ran low on {node[1] if node else 'its node'}. Its cell resumes from its "
            "checkpoint; resources.cpus=2 lets fewer run at a time"
        )
    else:
        note(f"Ray: {text.splitlines()[0][:300]}")


def print_nodes() -> None:
    """Print the resources of the nodes at RAY_ADDRESS as one line of JSON, or exit with the reason why not."""
    try:
        with cluster(None):
            sys.stdout.write(json.dumps([node["Resources"] for node in ray.nodes() if node["Alive"]]) + "\n")
    except (ConfigError, RunStopped) as error:
        sys.exit(str(error))


def _reach(address: str) -> None:
    """Fail fast and clearly if nothing listens there; Ray itself would keep trying for long."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        raise ConfigError(f"address {address!r} is not HOST:PORT")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise ConfigError(f"no Ray cluster at {address}: {error.strerror or error}") from None


def slots(resources: ResourceSettings) -> int:
    """How many cells fit on the cluster at once; raises ConfigError if none fits on any node."""
    fit, sizes = 0, []
    for node in ray.nodes():
        if node["Alive"]:
            cpus, gpus = node["Resources"].get("CPU", 0), node["Resources"].get("GPU", 0)
            sizes.append(f"{cpus:g} CPUs and {gpus:g} GPUs")
            share = int(1 / resources.gpus + 1e-9) * int(gpus) if 0 < resources.gpus < 1 else 0
            by_gpu = share if share else int(gpus // resources.gpus) if resources.gpus else 10**9
            fit += min(int(cpus // resources.cpus), by_gpu)
    if not fit:
        raise ConfigError(
            f"a cell asks for {resources.cpus:g} CPUs and {resources.gpus:g} GPUs (resources.cpus, resources.gpus); "
            f"no node has that much: {'; '.join(sorted(set(sizes)))}"
        )
    return fit


def ask(resources: ResourceSettings, cells: int) -> None:
    """Tell an autoscaler, if there is one, how many cells are left to run."""
    share = int(1 / resources.gpus + 1e-9) if 0 < resources.gpus < 1 else 1  # cells that share a GPU
    bundle = {"CPU": math.ceil(share * resources.cpus), "GPU": math.ceil(share * resources.gpus)}
    request_resources(bundles=[{name: count for name, count in bundle.items() if count}] * math.ceil(cells / share))


def refuse_sqlite(nodes: int, uri: str) -> None:
    if nodes > 1 and uri.startswith("sqlite"):
        raise ConfigError(
            f"the cluster has {nodes} nodes and tracking goes to {uri}; start an MLflow server on PostgreSQL and set "
            "MLFLOW_TRACKING_URI to it, or pass track=false"
        )
