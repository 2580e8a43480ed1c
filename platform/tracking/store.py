"""MLflow's store: opens it, and says what an experiment holds.

`Delivery` and its kinds (delivery.py, cell_delivery.py, sweep_delivery.py) write to it, backlog.py looks for what it
lacks, read.py reads sweeps back.
"""

import logging
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock

from permlab.platform.errors import RunError
from permlab.platform.settings.kinds import folder_name
from permlab.platform.tracking.view import TAG as VIEW

DATABASE_TRIES = 6  # within 6 seconds; MLflow's default of 10 takes 100 seconds
PAGE = 1000  # runs per call
ERROR = "error"  # the tag that says why a run failed
DELIVERED = "permlab.delivered"  # the tag that holds the fingerprint of what was delivered, once all of it was
PARENT = "mlflow.parentRunId"


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
    path = sqlite_file(uri)
    if path:
        make_store(path)
    client = MlflowClient(uri)
    if path:
        _write_ahead(client)
    return client


@contextmanager
def store_errors(uri: str) -> Iterator[None]:
    """Turn errors of the store into a RunError of one line."""
    try:
        yield
    except Exception as error:
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        expected = MlflowException | SQLAlchemyError | OSError | ImportError  # those of requests are OSErrors
        if not isinstance(error, expected):
            raise
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise RunError(f"{uri} cannot be reached: {reason}") from None


def _quiet() -> None:
    """MLflow sets its own log levels when it is imported."""
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
    """Create MLflow's tables, all or none.

    MLflow creates them by dozens of migrations in the file itself: a kill in between, or a second process that starts
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
        for leftover in (str(part), *(f"{file}{log}" for file in (part, path) for log in logs)):  # of killed processes
            Path(leftover).unlink(missing_ok=True)
        with closing(sqlite3.connect(part)) as empty:
            empty.execute("PRAGMA journal_mode=WAL")  # stored in the file itself
        uri = URL.create("sqlite", database=str(part)).render_as_string()
        SqlAlchemyStore(uri, str(path.parent / "artifacts")).engine.dispose()
        part.replace(path)


def _write_ahead(client: Any) -> None:
    """Give the client's SQLite engine a write-ahead log: readers (the dashboard) and the writer do not block."""
    from sqlalchemy import event

    engine = client._tracking_client.store.engine  # MLflow does not expose its engine
    if not event.contains(engine, "connect", _pragma):
        event.listen(engine, "connect", _pragma)
        engine.dispose()  # closes connections that were opened before


def _pragma(connection: Any, record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA busy_timeout=30000")
    cursor.close()


def identity(tags: dict[str, str]) -> str:
    """What identifies a run: a cell's key, a trial's study and number, the name of a sweep or a tuning."""
    names = ("permlab.sweep", "permlab.tuning", "study", "trial")
    return tags.get("permlab.key") or "/".join(tags.get(name, "") for name in names)


class StoredRun(NamedTuple):
    """What we need to know of a run in the store to see whether it has everything that is on disk."""

    run_id: str
    status: str
    started: int  # in milliseconds, as in MLflow
    artifacts: str  # their location
    delivered: str
    parent: str
    described: bool  # has parameters
    error: bool = False  # has the tag ERROR


class Experiment:
    """An experiment and its runs by identity, read once: all of them, or those that match `query`."""

    def __init__(self, client: Any, name: str, query: str = "") -> None:
        self.client, self.name = client, name
        experiment = _experiment(client, name)
        self.experiment_id, self.tags = str(experiment.experiment_id), dict(experiment.tags)
        self.delivered: list[str] = []  # since then: keys of cells, names of sweeps
        self.runs: dict[str, list[StoredRun]] = defaultdict(list)
        for run in search_runs(client, self.experiment_id, query):
            tags = run.data.tags
            facts = (run.info.run_id, run.info.status, run.info.start_time, run.info.artifact_uri)
            stored = StoredRun(
                *facts, tags.get(DELIVERED, ""), tags.get(PARENT, ""), bool(run.data.params), ERROR in tags
            )
            self.runs[identity(tags)].append(stored)

    def create(self, name: str, started: int, tags: dict[str, str]) -> StoredRun:
        info = self.client.create_run(self.experiment_id, started, tags, name).info
        facts = (info.run_id, info.status, started, info.artifact_uri)
        stored = StoredRun(*facts, delivered="", parent=tags.get(PARENT, ""), described=False)
        self.runs[identity(tags)].append(stored)
        return stored

    def arrange(self, key: str, view: str) -> None:
        """Set the view that its page opens with by this key."""
        if view != self.tags.get(VIEW + key):
            self.client.set_experiment_tag(self.experiment_id, VIEW + key, view)
            self.tags[VIEW + key] = view

    def models(self, run_id: str) -> list[Any]:
        """The logged models of a run."""
        return list(self.client.search_logged_models([self.experiment_id], f"source_run_id = '{run_id}'"))

    def delete(self, run: StoredRun) -> None:
        """Delete a run and its models: MLflow keeps both, as deleted ones."""
        for model in self.models(run.run_id):
            self.client.delete_logged_model(model.model_id)
        self.client.delete_run(run.run_id)

    def log_artifacts(self, location: str, folder: Path) -> None:
        """As MLflow's client does, but without requesting the run each time to find its artifact location."""
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        get_artifact_repository(location, tracking_uri=self.client.tracking_uri).log_artifacts(str(folder))


def search_runs(client: Any, experiment_id: str, query: str = "") -> Iterator[Any]:
    token = None
    while True:
        page = client.search_runs([experiment_id], query, max_results=PAGE, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _experiment(client: Any, name: str) -> Any:
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        path = sqlite_file(client.tracking_uri)
        location = str(path.parent / "artifacts" / folder_name(name)) if path else None
        try:
            return client.get_experiment(client.create_experiment(name, artifact_location=location))
        except MlflowException:  # another process was faster
            experiment = client.get_experiment_by_name(name)
    return experiment
