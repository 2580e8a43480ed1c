"""MLflow: delivers what runs and sweeps wrote to disk. The only file that knows MLflow.

Delivery is idempotent and resumes where it stopped; `delivered-*.json` beside a run says how far it came. A courier
(`permlab.platform.follow`) delivers from a process of its own while a run or a sweep is under way.
"""

import hashlib
import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from permlab.platform.curves import draw_curves
from permlab.platform.histories import gather, read_history
from permlab.platform.json_files import read_json, write_json

METRICS_A_CALL, DIGEST_LENGTH = 1000, 36  # MLflow's limits; a call takes 100 parameters, of which a run has fewer
DATABASE_TRIES = 6  # within 6 seconds; MLflow's own ten take 100
CELL_FILES = (
    "config.yaml",
    "curves.png",
    "predictions.parquet",
    "weights.pt",
    "run.json",
    "history.jsonl",
    "result.json",
    "error.txt",
)
SWEEP_FILES = (
    "sweep.yaml",
    "plan.json",
    "histories.parquet",
    "results.csv",
    "results.md",
    "tuned.yaml",
    "studies.json",
)


def tracking_uri(runs: Path) -> str:
    """`MLFLOW_TRACKING_URI`, or an SQLite file in the runs folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(runs / 'mlflow.db').resolve()}"


def connect(runs: Path) -> Any:
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("PGCONNECT_TIMEOUT", "10")
    runs.mkdir(parents=True, exist_ok=True)
    from mlflow import MlflowClient
    from mlflow.store.db import utils

    _quiet()
    utils.MAX_RETRY_COUNT = DATABASE_TRIES
    uri = tracking_uri(runs)
    if path := sqlite_file(uri):
        _write_ahead()
        make_store(path)
    return MlflowClient(uri)


def _quiet() -> None:
    """When it is imported MLflow sets its own levels."""
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)


def sqlite_file(uri: str) -> Path | None:
    """The file of an SQLite store; None for servers and other databases."""
    from sqlalchemy.engine import make_url

    if not uri.startswith("sqlite"):
        return None
    database = make_url(uri).database
    return Path(database) if database and database != ":memory:" else None


def make_store(path: Path) -> None:
    """MLflow's tables, whole or not there.

    MLflow makes them by dozens of migrations in the file itself: a kill in between, or a second process that begins
    at the same time, would leave a database that nobody can open.
    """
    if path.exists():
        return
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
    from sqlalchemy.engine import URL

    _quiet()
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock", timeout=30):
        if path.exists():
            return
        part, logs = path.with_name(f"{path.name}.part"), ("-wal", "-shm", "-journal")
        for left in (str(part), *(f"{file}{log}" for file in (part, path) for log in logs)):  # by those that are dead
            Path(left).unlink(missing_ok=True)
        uri = URL.create("sqlite", database=str(part)).render_as_string()
        SqlAlchemyStore(uri, str(path.parent / "artifacts")).engine.dispose()
        part.replace(path)


def _write_ahead() -> None:
    """SQLite with a write-ahead log: readers (the dashboard) and the writer do not wait for one another."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    @event.listens_for(Engine, "connect")
    def _pragma(connection: Any, record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.execute("PRAGMA busy_timeout=30000")
        cursor.close()


class Delivery:
    """One folder's way into one experiment of one store; subclasses say what of it is delivered."""

    def __init__(self, folder: Path, client: Any, experiment: str, tags: dict[str, str]) -> None:
        self.folder, self.client, self.experiment, self.tags = folder, client, experiment, tags
        where = hashlib.sha256(f"{client.tracking_uri} {experiment}".encode()).hexdigest()[:10]
        self.path = folder / f"delivered-{where}.json"
        self.state = read_json(self.path) or {"run_id": None, "epoch": 0, "status": None}

    def create(self, name: str, started: float, tags: dict[str, str]) -> None:
        experiment = experiment_id(self.client, self.experiment)
        run_id = self._created_before(experiment)
        if not run_id:
            self.save(ticket=uuid.uuid4().hex)
            own = {"permlab.ticket": self.state["ticket"]}
            created = self.client.create_run(experiment, int(started * 1000), tags | self.tags | own, name)
            run_id = created.info.run_id
        self.save(run_id=run_id)

    def _created_before(self, experiment: str) -> str | None:
        """The run, if it was created but the answer got lost."""
        if not self.state.get("ticket"):
            return None
        found = self.client.search_runs([experiment], f"tags.`permlab.ticket` = '{self.state['ticket']}'")
        return str(found[0].info.run_id) if found else None

    def log(self, metrics: Sequence[Any] = (), params: dict[str, str] | None = None) -> None:
        """Metrics and parameters in as few calls as MLflow allows."""
        from mlflow.entities import Param

        entries = [Param(key, value[:6000]) for key, value in (params or {}).items()]
        for first in range(0, max(len(metrics), 1), METRICS_A_CALL):
            part = metrics[first : first + METRICS_A_CALL]
            if part or entries:
                self.client.log_batch(self.state["run_id"], metrics=part, params=entries)
            entries = []

    def finish(self, status: str, ended: float, files: Sequence[str]) -> None:
        present = [name for name in files if (self.folder / name).exists()]
        if present:
            bundle = self.folder / ".bundle"  # one call for all of them
            shutil.rmtree(bundle, ignore_errors=True)
            bundle.mkdir()
            for name in present:
                os.link(self.folder / name, bundle / name)
            self.client.log_artifacts(self.state["run_id"], str(bundle))
            shutil.rmtree(bundle, ignore_errors=True)
        self.client.set_terminated(self.state["run_id"], status, int(ended * 1000))
        self.save(status=status)

    def go_on(self) -> None:
        """What had ended is running again."""
        self.client.update_run(self.state["run_id"], status="RUNNING")
        self.save(status=None)

    def abandon(self) -> None:
        """Its process died: what was under way is not running any more."""
        if self.state["run_id"] and self.state["status"] is None:
            self.client.set_terminated(self.state["run_id"], "KILLED")
            self.save(status="KILLED")

    def save(self, **changes: Any) -> None:
        self.state |= changes
        write_json(self.path, self.state)


class CellDelivery(Delivery):
    """A run: itself, its epochs, and at its end artifacts and status."""

    def __init__(
        self, folder: Path, client: Any, experiment: str | None = None, tags: dict[str, str] | None = None
    ) -> None:
        run = read_json(folder / "run.json")
        if run is None:
            raise FileNotFoundError(folder / "run.json")
        self.run = run
        super().__init__(folder, client, experiment or run["experiment"], tags or {})

    @property
    def complete(self) -> bool:
        result = read_json(self.folder / "result.json")
        return bool(result and self.state["status"] == result["status"])

    def advance(self) -> None:
        """Deliver all that is new."""
        result = read_json(self.folder / "result.json")
        if self.state["run_id"] is None:
            self.create(self.run["name"], self.run["started"], self.run["tags"])
        elif self.state["status"] and not result:
            self.go_on()
        described = self.state.get("described")
        if not described:
            self._dataset()
        history = read_history(self.folder)
        ended = result is not None and self.state["status"] != result["status"]
        points = self._points([entry for entry in history if entry["epoch"] > self.state["epoch"]])
        if result and ended:
            step = history[-1]["epoch"] if history else 0
            points += [(key, value, result["ended"], step) for key, value in outcome(result).items()]
        self._metrics(points, {} if described else self.run["params"])
        if result and ended:
            if result.get("error"):
                self.client.set_tag(self.state["run_id"], "error", result["error"][:1000])
            draw_curves(history, f"{self.run['dataset']['name']}: {self.run['name']}", self.folder / "curves.png")
            for key, value in result.get("tags", {}).items():
                self.client.set_tag(self.state["run_id"], key, value)
            self.finish(result["status"], result["ended"], CELL_FILES)

    def _dataset(self) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        data = self.run["dataset"]
        dataset = Dataset(
            name=data["name"],
            digest=data["digest"][:DIGEST_LENGTH],
            source_type="permlab",
            source=json.dumps({"name": data["name"], "digest": data["digest"]}),
            profile=json.dumps({"graphs": data["graphs"]}),
        )
        inputs = [DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])]
        self.client.log_inputs(self.state["run_id"], inputs)

    def _points(self, entries: list[dict[str, Any]]) -> list[tuple[str, float | None, float, int]]:
        """Name, value, time, step. Times are written down beforehand: what is sent again must not count twice."""
        now, known = time.time(), self.state.get("sending", {})
        times: dict[str, float] = {epoch: known.get(epoch, now) for epoch in (str(entry["epoch"]) for entry in entries)}
        if times != known:
            self.save(sending=times)
        return [
            (key, value, times[str(entry["epoch"])], int(entry["epoch"]))
            for entry in entries
            for key, value in entry.items()
            if key != "epoch"
        ]

    def _metrics(self, points: list[tuple[str, float | None, float, int]], params: dict[str, str]) -> None:
        from mlflow.entities import Metric

        metrics = [Metric(key, float(v), int(1000 * at), step) for key, v, at, step in points if v is not None]
        self.log(metrics, params)
        if points or params:
            self.save(epoch=max([self.state["epoch"], *(point[3] for point in points)]), described=True, sending={})


class SweepDelivery(Delivery):
    """A sweep: the parent run, its cells as children, and at its end plan and results."""

    def __init__(self, folder: Path, client: Any, tags: dict[str, str] | None = None) -> None:
        self.cells_folder = folder.parent.parent / "cells"
        self.waiting: dict[str, CellDelivery | None] = {}
        self.tags_of: dict[str, dict[str, str]] = {}  # what the plan says of a cell, and its run cannot know
        super().__init__(folder, client, folder.name, tags or {"permlab.sweep": folder.name})
        for cell in (read_json(folder / "plan.json") or {"cells": []})["cells"]:
            self.tags_of[cell["key"]] = cell.get("tags", {})
        self.keys = list(self.tags_of)
        self.waiting |= dict.fromkeys(self.keys)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def document(self) -> dict[str, Any]:
        return read_json(self.folder / "sweep.json") or {}

    @property
    def complete(self) -> bool:
        return bool(self.document.get("status") and self.state["status"] == self.document["status"])

    def advance(self) -> None:
        """Deliver all that is new of the sweep and of its cells."""
        document = self.document
        if self.state["run_id"] is None:
            self.create(self.name, document["started"], {})
        elif self.state["status"] and not document.get("status"):
            self.go_on()
            self._plan()
        if not self.state.get("described"):
            self.log(params=document["params"])
            self._plan()
            self.save(described=True)
        for key in list(self.waiting):
            delivery = self.waiting[key] or self._cell(key)
            if delivery:
                delivery.advance()
                if delivery.state["status"] == "FINISHED":  # one that was killed or failed may start again
                    del self.waiting[key]
        if document.get("status"):
            gather((self.cells_folder / key for key in self.keys), self.folder / "histories.parquet")
            self.finish(document["status"], document["ended"], SWEEP_FILES)

    def _plan(self) -> None:
        """A report of an unfinished sweep says what is missing."""
        self.client.log_artifact(self.state["run_id"], str(self.folder / "plan.json"))

    def _cell(self, key: str) -> CellDelivery | None:
        folder = self.cells_folder / key
        if not (folder / "run.json").exists():
            return None
        tags = self.tags | self.tags_of.get(key, {}) | {"mlflow.parentRunId": self.state["run_id"]}
        self.waiting[key] = CellDelivery(folder, self.client, self.experiment, tags)
        return self.waiting[key]

    def abandon(self) -> None:
        super().abandon()
        for delivery in self.waiting.values():
            if delivery:
                delivery.abandon()


def outcome(result: dict[str, Any]) -> dict[str, float | None]:
    """What is known of a run at its end only: cost, sizes of the splits, certificate."""
    facts = {f"cost/{name}": result.get(name) for name in ("seconds", "parameters")}
    for group in ("graphs", "certificate"):
        facts |= {f"{group}/{name}": value for name, value in result.get(group, {}).items()}
    return facts


class TuningDelivery(SweepDelivery):
    """A tuning: the parent run in the experiment of its sweep, and its trials, as they come, as children."""

    def __init__(self, folder: Path, client: Any) -> None:
        super().__init__(folder, client, {"permlab.tuning": folder.name})
        self.cells_folder = folder / "trials"

    @property
    def name(self) -> str:
        return f"{self.folder.name} tuning"

    def advance(self) -> None:
        there = {path.parent.name for path in self.cells_folder.glob("*/run.json")}
        self.waiting |= dict.fromkeys(sorted(there - set(self.keys)))
        self.keys = sorted(there)
        super().advance()


@cache
def experiment_id(client: Any, name: str) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        path = sqlite_file(client.tracking_uri)
        location = str(path.parent / "artifacts" / name) if path else None
        try:
            return str(client.create_experiment(name, artifact_location=location))
        except MlflowException:  # somebody else was quicker
            found = client.get_experiment_by_name(name)
    return str(found.experiment_id)


def undelivered(runs: Path) -> list[CellDelivery | SweepDelivery]:
    """What has ended and is not, or not wholly, in the store: single runs, and sweeps with their cells."""
    client = connect(runs)
    in_sweeps: set[str] = set()
    waiting: list[CellDelivery | SweepDelivery] = []
    for path in sorted(runs.glob("tunings/*/sweep.json")):
        tuning = TuningDelivery(path.parent, client)
        if not tuning.complete and tuning.document.get("status"):
            waiting.append(tuning)
    for path in sorted(runs.glob("sweeps/*/sweep.json")):
        sweep = SweepDelivery(path.parent, client)
        in_sweeps |= set(sweep.waiting)
        if not sweep.complete and sweep.document.get("status"):
            waiting.append(sweep)
    for path in sorted(runs.glob("cells/*/result.json")):
        if path.parent.name not in in_sweeps:
            cell = CellDelivery(path.parent, client)
            if not cell.complete:
                waiting.append(cell)
    return waiting
