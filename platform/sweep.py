"""Ray: runs the cells of a plan, wherever there is room. The only file that knows Ray.

The driver holds nothing that is not stored: killed and started again, it plans anew from what lies on disk.
"""

import logging
import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray._private import ray_constants as constants
from ray.exceptions import RayError, RayTaskError, TaskCancelledError

from permlab.datasets.cache import build, folder_of
from permlab.datasets.catalogue import parse_name
from permlab.datasets.errors import DataError
from permlab.datasets.manifest import read_manifest
from permlab.platform.errors import ConfigError, RunStopped
from permlab.platform.grid import ResourceSettings, SweepSettings
from permlab.platform.plan import Cell

Runner = Callable[[Any], dict[str, Any]]


@dataclass
class Progress:
    """How a sweep stands."""

    total: int
    finished: int = 0
    running: int = 0
    failed: int = 0
    killed: int = 0
    events: list[str] = field(default_factory=list)  # since the last look

    @property
    def left(self) -> int:
        return self.total - self.finished - self.failed - self.killed


@contextmanager
def cluster(address: str | None) -> Iterator[int]:
    """Join the cluster at `address` (or RAY_ADDRESS), else start Ray on this machine; yields the number of nodes."""
    address = address or os.environ.get("RAY_ADDRESS")
    if address and (Path("~/.ray/auth_token").expanduser().exists() or "RAY_AUTH_TOKEN" in os.environ):
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # a cluster's default; Ray on this machine sees to it itself
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if address and address not in ("auto", "local"):
        _reach(address)
    joins = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = joins and bool(address)  # Ray on this machine keeps to loopback, as on macOS
    try:
        ray.init(
            address=address or "local",
            include_dashboard=False if not address else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
            namespace="permlab",
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(f"no Ray cluster at {address}: {str(error).splitlines()[0]}") from None
    finally:
        constants.ENABLE_RAY_CLUSTER = joins
    try:
        yield len([node for node in ray.nodes() if node["Alive"]])
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """Fail soon and clearly if nothing listens there; Ray itself would try for long."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        raise ConfigError(f"address {address!r} is not HOST:PORT")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise ConfigError(f"no Ray cluster at {address}: {error.strerror or error}") from None


def slots(resources: ResourceSettings) -> int:
    """How many cells fit on the cluster at once; an error if not one fits on any node."""
    fit, best = 0, []
    for node in ray.nodes():
        if node["Alive"]:
            cpus, gpus = node["Resources"].get("CPU", 0), node["Resources"].get("GPU", 0)
            best.append(f"{cpus:g} CPUs and {gpus:g} GPUs")
            share = int(1 / resources.gpus + 1e-9) * int(gpus) if 0 < resources.gpus < 1 else 0
            by_gpu = share if share else int(gpus // resources.gpus) if resources.gpus else 10**9
            fit += min(int(cpus // resources.cpus), by_gpu)
    if not fit:
        raise ConfigError(
            f"a cell asks for {resources.cpus:g} CPUs and {resources.gpus:g} GPUs (resources.cpus, resources.gpus); "
            f"no node has as much: {'; '.join(sorted(set(best)))}"
        )
    return fit


def _execute(
    runner: Runner, settings: Any, key: str, runs: str, sentinel: str, data: list[Any], digest: str
) -> dict[str, Any]:
    """In a worker: run the cell. Where the runs folder is not shared, the files travel back with the result."""
    _receive(settings.dataset, data, digest)
    if (Path(runs) / sentinel).exists():
        return _guarded(runner, settings)
    local = Path(tempfile.gettempdir()) / f"permlab-{os.getuid()}" / "runs"
    local.mkdir(parents=True, exist_ok=True)
    outcome = _guarded(runner, settings.model_copy(update={"runs": str(local)}))
    folder = local / "cells" / key
    outcome["files"] = {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.suffix in (".json", ".jsonl", ".yaml", ".parquet", ".pt", ".txt") and path.name != "checkpoint.pt"
    }
    return outcome


def _guarded(runner: Runner, settings: Any) -> dict[str, Any]:
    try:
        return {"status": "FINISHED", "result": runner(settings)}
    except (RunStopped, KeyboardInterrupt) as stopped:
        return {"status": "KILLED", "error": str(stopped)}
    except Exception as error:
        return {"status": "FAILED", "error": f"{type(error).__name__}: {error}".splitlines()[0]}


def _receive(dataset: str, data: list[Any], digest: str) -> None:
    """Put the driver's copy of the data set into this node's cache, once, if it is not there."""
    name = parse_name(dataset)
    folder = folder_of(name)
    try:
        if read_manifest(folder, name.text).digest == digest:
            return
    except DataError:
        pass
    if not data:
        build(dataset)
        return
    from filelock import FileLock

    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f".{folder.name}.lock"):
        if (folder / "manifest.json").exists() and read_manifest(folder, name.text).digest == digest:
            return
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.building-", dir=folder.parent))
        for file, content in ray.get(data[0]).items():
            (scratch / file).write_bytes(content)
        shutil.rmtree(folder, ignore_errors=True)
        scratch.rename(folder)


def run_cells(
    sweep: SweepSettings,
    cells: list[Cell],
    runner: Runner,
    on_progress: Callable[[Progress], None],
    stop_signal: Callable[[], int],
) -> Progress:
    """Run the cells, in their order as room allows; returns when none is left or under way.

    A cell that raises counts as failed; one whose worker or node dies is started again by Ray, and goes on from its
    checkpoint. A stop signal, or more failures than `max_failed`, lets running cells save their state and end.
    """
    progress = Progress(len(cells))
    resources = sweep.resources
    task: Any = ray.remote(
        num_cpus=resources.cpus,
        num_gpus=resources.gpus,
        max_retries=sweep.retries,
        max_calls=0,  # workers are reused, also those with a GPU: importing torch takes longer than many a cell
        scheduling_strategy="SPREAD",
    )(_execute)
    runs = Path(sweep.runs).resolve()
    sentinel = f".shared-{uuid.uuid4().hex}"
    runs.mkdir(parents=True, exist_ok=True)
    (runs / sentinel).touch()
    room = slots(resources)
    data = _ship(sweep) if len([node for node in ray.nodes() if node["Alive"]]) > 1 else {}
    waiting = list(reversed(cells))
    under_way: dict[Any, Cell] = {}
    stopping = False
    try:
        while waiting or under_way:
            while waiting and len(under_way) < 2 * room + 8:
                cell = waiting.pop()
                settings = cell.settings.model_copy(update={"runs": str(runs)})
                digest = read_manifest(folder_of(parse_name(settings.dataset)), settings.dataset).digest
                arguments = (runner, settings, cell.key, str(runs), sentinel, data.get(settings.dataset, []), digest)
                under_way[task.remote(*arguments)] = cell
            ray.wait(list(under_way), timeout=0.2)  # for the first; then take all that are ready
            ready, _ = ray.wait(list(under_way), num_returns=len(under_way), timeout=0)
            for reference in ready:
                _settle(reference, under_way.pop(reference), progress, runs)
            progress.running = min(room, len(under_way))
            on_progress(progress)
            gives_up = progress.failed > sweep.max_failed
            if not stopping and (stop_signal() or gives_up):
                stopping = True
                progress.killed += len(waiting)
                waiting = []
                for reference in under_way:
                    ray.cancel(reference, force=False, recursive=False)
    finally:
        (runs / sentinel).unlink(missing_ok=True)
    return progress


def _settle(reference: Any, cell: Cell, progress: Progress, runs: Path) -> None:
    """Read how a cell ended."""
    try:
        outcome = ray.get(reference)
    except TaskCancelledError:
        outcome = {"status": "KILLED"}
    except RayTaskError as error:
        outcome = {"status": "FAILED", "error": str(error.cause or error).splitlines()[-1]}
    except RayError as error:  # its worker or node died more often than it may
        outcome = {"status": "FAILED", "error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    if files := outcome.pop("files", None):
        folder = runs / "cells" / cell.key
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in sorted(files.items(), key=lambda item: item[0] == "result.json"):
            (folder / name).write_bytes(content)
    if outcome["status"] == "FINISHED":
        cell.result = outcome["result"]
        progress.finished += 1
        progress.events.append(f"{cell.settings.name} finished")
    elif outcome["status"] == "FAILED":
        progress.failed += 1
        progress.events.append(f"{cell.settings.name} failed: {outcome['error']}")
    else:
        progress.killed += 1


def _ship(sweep: SweepSettings) -> dict[str, list[Any]]:
    """The data sets in Ray's object store, for nodes whose cache has not got them."""
    shipped = {}
    for dataset in sweep.dataset:
        name = parse_name(dataset)
        folder = folder_of(name)
        shipped[name.text] = [ray.put({path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()})]
    return shipped


def refuse_sqlite(nodes: int, uri: str) -> None:
    if nodes > 1 and uri.startswith("sqlite"):
        raise ConfigError(
            f"the cluster has {nodes} nodes and tracking goes to {uri}; start an MLflow server on PostgreSQL and set "
            "MLFLOW_TRACKING_URI to it, or pass track=false"
        )
