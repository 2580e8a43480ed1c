"""Ray: runs the cells of a plan, or the trials of a tuning, wherever there is room.

Only this file and its neighbours ray_*.py import Ray. The driver keeps no state in memory alone: killed and started
again, it plans anew from the files on disk.
"""

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError, TaskCancelledError

from permlab.datasets.cache import build, folder_of
from permlab.datasets.catalogue import parse_name
from permlab.datasets.checked import checked_manifest
from permlab.datasets.errors import DataError
from permlab.datasets.folds import content_of
from permlab.datasets.folds import receive as receive_folds
from permlab.datasets.manifest import read_manifest
from permlab.datasets.remote import remote_address
from permlab.platform.display.live_view import Ended, UnderWay
from permlab.platform.errors import ConfigError, RunStopped
from permlab.platform.files.liveness import holding, remove_leftovers
from permlab.platform.plugins.code import Shipped, loaded
from permlab.platform.plugins.receive import receive_codes
from permlab.platform.run.histories import FILE_NAME as HISTORY
from permlab.platform.run.progress import flat, headline_value, stored_headline
from permlab.platform.run.stored_result import FAILED, FINISHED, STOPPED
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.sweep.plan import Cell
from permlab.platform.sweep.ray_cluster import alive_nodes, ask, slots
from permlab.platform.sweep.ray_mirror import Mailbox, mirrored

Runner = Callable[[Any], dict[str, Any]]


@dataclass
class Progress:
    """Progress of a sweep."""

    finished: int = 0
    failed: int = 0
    under_way: dict[str, UnderWay] = field(default_factory=dict)  # by key
    lost: set[str] = field(default_factory=set)  # keys of the cells that failed or were stopped
    ended: list[Ended] = field(default_factory=list)  # since the last update
    stopping: str = ""  # why no more are started


def _execute(
    runner: Runner,
    job: Any,
    folder: str,
    runs: str,
    sentinel: str,
    data: list[Any],
    digest: str,
    codes: list[Shipped],
    folds: bytes = b"",
) -> dict[str, Any]:
    """In a worker: run the job, whose files go to `folder` in the runs folder. If this node does not share it, they
    travel back with the result, and before it what people look at."""
    try:
        receive_codes(codes, job.dataset)
    except ConfigError as error:
        return {"status": FAILED, "error": str(error)}
    _receive(job.dataset, data, digest)
    if folds:
        receive_folds(job.splits_file, folds)
    if (Path(runs) / sentinel).exists():
        return _guarded(runner, job)
    local = Path(tempfile.gettempdir()) / f"permlab-{os.getuid()}" / "runs"
    local.mkdir(parents=True, exist_ok=True)
    with mirrored(sentinel, local / folder, folder):
        outcome = _guarded(runner, job.model_copy(update={"runs": str(local)}))
    outcome["files"] = {
        path.name: path.read_bytes()
        for path in (local / folder).glob("*")
        if path.suffix in (".json", ".jsonl", ".yaml", ".parquet", ".pt", ".txt") and path.name != "checkpoint.pt"
    }
    return outcome


def _guarded(runner: Runner, settings: Any) -> dict[str, Any]:
    try:
        return {"status": FINISHED, "result": runner(settings)}
    except (RunStopped, KeyboardInterrupt) as stopped:
        return {"status": STOPPED, "error": str(stopped)}
    except Exception as error:
        return {"status": FAILED, "error": f"{type(error).__name__}: {error}".splitlines()[0]}


def _receive(dataset: str, data: list[Any], digest: str) -> None:
    """Put the driver's copy of the data set into this node's cache, once, if it is missing."""
    name = parse_name(dataset)
    folder = folder_of(name)
    if _has(folder, name.text, digest):
        return
    if not data or remote_address():
        build(dataset)
        return
    from filelock import FileLock

    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f".{folder.name}.lock"):
        if _has(folder, name.text, digest):
            return
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.building-", dir=folder.parent))
        for file, content in ray.get(data[0]).items():
            (scratch / file).write_bytes(content)
        shutil.rmtree(folder, ignore_errors=True)
        scratch.rename(folder)


def _has(folder: Path, name: str, digest: str) -> bool:
    try:
        return checked_manifest(folder, name).digest == digest
    except DataError:  # it is missing or damaged
        return False


class Tasks:
    """Jobs under way as Ray tasks. A job has a data set and a runs folder; `runner(job)` runs it in a worker.

    A job whose worker or node dies is started again by Ray, up to `retries` times.
    """

    def __init__(self, sweep: SweepSettings) -> None:
        self.resources = resources = sweep.resources
        self.task: Any = ray.remote(
            num_cpus=resources.cpus,
            num_gpus=resources.gpus,
            max_retries=sweep.retries,
            max_calls=0,  # workers are reused, also those with a GPU: importing torch takes longer than many cells
            scheduling_strategy="SPREAD",
        )(_execute)
        self.room = slots(resources)
        self.runs = Path(sweep.runs).resolve()
        self.sentinel = f".shared-{uuid.uuid4().hex}"
        self.data = _ship(sweep) if alive_nodes() > 1 else {}
        self.mailbox = Mailbox(self.sentinel, self.runs)
        self.next_count = 0.0
        self.under_way: dict[Any, tuple[Any, str]] = {}  # reference → (the caller's label, its folder)

    def __enter__(self) -> Self:
        self.runs.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.runs, ".shared-*")
        self.holding = holding(self.runs / self.sentinel)
        self.holding.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        (self.runs / self.sentinel).unlink(missing_ok=True)
        self.holding.__exit__(kind, error, trace)
        with suppress(RayError, RuntimeError):  # the cluster may be gone
            ask(self.resources, 0)
            self.mailbox.close()

    def __len__(self) -> int:
        return len(self.under_way)

    def count_nodes(self, left: int) -> None:
        """Every five seconds: nodes come and go, and an autoscaler needs to know how many jobs are left."""
        if time.monotonic() > self.next_count:
            self.next_count = time.monotonic() + 5
            ask(self.resources, left)
            with suppress(ConfigError):  # no node is left: wait for others
                # Never fewer: jobs of a lost node count as under way until Ray gives them up
                self.room = max(self.room, slots(self.resources))

    def start(self, label: Any, runner: Runner, job: Any, folder: str) -> None:
        """Hand a job to Ray; its files go to `folder` in the runs folder."""
        job = job.model_copy(update={"runs": str(self.runs)})
        digest = read_manifest(folder_of(parse_name(job.dataset)), job.dataset).digest
        data, codes = self.data.get(job.dataset, []), [loaded(head).shipped for head in job.codes]
        folds = content_of(job.splits_file) if job.splits_file else b""
        reference = self.task.remote(runner, job, folder, str(self.runs), self.sentinel, data, digest, codes, folds)
        self.under_way[reference] = (label, folder)

    def ended(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Label and outcome of each job that has ended, after a short wait for the first."""
        if not self.under_way:
            return
        with suppress(RayError, RuntimeError):  # the head of the cluster may be away for a while
            self.mailbox.deliver(folder for _, folder in self.under_way.values())
        ray.wait(list(self.under_way), timeout=0.2)  # for the first; then take all that are ready
        ready, _ = ray.wait(list(self.under_way), num_returns=len(self.under_way), timeout=0)
        for reference in ready:
            label, folder = self.under_way.pop(reference)
            yield label, _outcome(reference, self.runs / folder)

    def cancel(self) -> None:
        """Ask all jobs to save their state and end."""
        for reference in self.under_way:
            ray.cancel(reference, force=False, recursive=False)


def run_cells(
    sweep: SweepSettings,
    cells: list[Cell],
    runner: Runner,
    on_progress: Callable[[Progress], None],
    stop_signal: Callable[[], int],
) -> Progress:
    """Run the cells, in their order as room allows; returns when none is left or under way.

    A cell that raises counts as failed; one whose worker or node dies is started again by Ray, and resumes from its
    checkpoint. A stop signal, or more failures than `max_failed`, lets running cells save their state and end.
    """
    progress = Progress()
    waiting = list(reversed(cells))
    several = len({cell.settings.dataset for cell in cells}) > 1  # data sets
    with Tasks(sweep) as tasks:
        while waiting or tasks:
            tasks.count_nodes(len(waiting) + len(tasks))
            # No more than there is room for: a job queued on a node that is cut off would wait for minutes
            while waiting and len(tasks) < tasks.room:
                cell = waiting.pop()
                tasks.start(cell, runner, cell.settings, f"cells/{cell.key}")
                name = f"{cell.settings.dataset} {cell.settings.name}" if several else cell.settings.name
                history = tasks.runs / "cells" / cell.key / HISTORY
                progress.under_way[cell.key] = UnderWay(name, history, cell.settings.train.epochs)
            for cell, outcome in tasks.ended():
                _settle(cell, outcome, progress)
            if not progress.stopping and (stop_signal() or progress.failed > sweep.max_failed):
                progress.stopping = "stopping" if stop_signal() else f"giving up after {progress.failed} failed cells"
                waiting = []
                tasks.cancel()
            on_progress(progress)
    return progress


def _outcome(reference: Any, folder: Path) -> dict[str, Any]:
    """How a job ended; files that came with the outcome are written to `folder`."""
    try:
        outcome: dict[str, Any] = ray.get(reference)
    except TaskCancelledError:
        outcome = {"status": STOPPED}
    except RayTaskError as error:
        said = str(error.cause or error).splitlines()[-1]
        if "No module named 'permlab'" in said:
            raise ConfigError(
                "the cluster's nodes do not have PermLab: install it there, or send it along with ray job submit "
                "--runtime-env infra/runtime-env.yaml"
            ) from None
        outcome = {"status": FAILED, "error": said}
    except OutOfMemoryError:
        reason = "memory ran low each time; resources.cpus=2 lets fewer run at a time, or reduce train.batch_size or d"
        outcome = {"status": FAILED, "error": reason}
    except RayError as error:  # its worker or node died more often than `retries` allows
        outcome = {"status": FAILED, "error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    if files := outcome.pop("files", None):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in sorted(files.items(), key=lambda item: item[0] == "result.json"):
            (folder / name).write_bytes(content)
    return outcome


def _settle(cell: Cell, outcome: dict[str, Any], progress: Progress) -> None:
    one = progress.under_way.pop(cell.key)
    if outcome["status"] == FINISHED:
        cell.result = result = outcome["result"]
        progress.finished += 1
        value = headline_value(flat(result["metrics"]), stored_headline(one.history.parent))
        measured = f"{value[0]} {value[1]:.4f}" if value else ""
        epochs = f"{result['epochs']} of {one.epochs}" if "epochs" in result else ""
        progress.ended.append(Ended(one.name, "finished", epochs, measured, result.get("seconds")))
        return
    progress.lost.add(cell.key)
    failed = outcome["status"] == FAILED
    progress.failed += failed
    state, why = ("failed", outcome["error"]) if failed else ("stopped", "")
    progress.ended.append(Ended(one.name, state, "", why, None))


def _ship(sweep: SweepSettings) -> dict[str, list[Any]]:
    """The data sets in Ray's object store, for nodes whose cache lacks them."""
    shipped = {}
    for dataset in sweep.dataset:
        name = parse_name(dataset)
        folder = folder_of(name)
        shipped[name.text] = [ray.put({path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()})]
    return shipped
