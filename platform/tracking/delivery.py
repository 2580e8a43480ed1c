"""Deliver files on disk to MLflow. A file counts as delivered only when the store holds it.

A run in the store has a tag with a fingerprint of what was delivered, which is compared with the files on disk.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from permlab.platform.errors import DamagedFile
from permlab.platform.run.stored_result import KILLED, STOPPED
from permlab.platform.tracking.store import ERROR, Experiment, StoredRun, identity

METRICS_PER_CALL = 1000  # MLflow's limit; runs stay below its limits of 100 parameters and 100 tags
LONGEST_VALUE = 6000  # characters of a parameter
RUNNING = "RUNNING"


class Delivery:
    """Delivers one folder to its run in an experiment; subclasses say what is delivered.

    Once our run has ended, older runs of the same cell or sweep (its folder was removed, or it was trained again) are
    deleted: MLflow keeps them among its deleted runs.
    """

    def __init__(self, folder: Path, experiment: Experiment, tags: dict[str, str], started: float) -> None:
        self.folder, self.experiment, self.client, self.tags = folder, experiment, experiment.client, tags
        self.started = milliseconds(started)
        self.stored: StoredRun | None = None
        self.created_with: dict[str, str] = {}
        self.damaged: dict[str, DamagedFile] = {}  # by the key of the cell
        self.on_progress: Callable[[], None] = lambda: None

    @property
    def namesakes(self) -> list[StoredRun]:
        """All runs of this cell or sweep in the store."""
        return self.experiment.runs[identity(self.tags)]

    @property
    def run_id(self) -> str:
        assert self.stored
        return self.stored.run_id

    def find(self, fingerprint: str | None, run_id: str | None = None) -> None:
        """Find our run in the store: by its noted id, its start, or the fingerprint of what was delivered."""
        for run in self.namesakes:
            if run.run_id == run_id or run.started == self.started or (run.delivered and run.delivered == fingerprint):
                self.stored = run
                return

    def is_delivered(self, status: str, fingerprint: str) -> bool:
        """Does the store have all of it, exactly once? The status is sent last."""
        ours = self.stored and (self.stored.status, self.stored.delivered) == (in_store(status), fingerprint)
        return bool(ours) and len(self.namesakes) == 1

    def create(self, name: str) -> None:
        self.stored, self.created_with = self.experiment.create(name, self.started, self.tags), self.tags

    def changed(self, **facts: Any) -> None:
        """Remember what the store has now."""
        assert self.stored
        self.namesakes.remove(self.stored)
        self.stored = self.stored._replace(**facts)
        self.namesakes.append(self.stored)

    def log(self, params: dict[str, str], tags: dict[str, str], metrics: Sequence[Any] = ()) -> None:
        """Log in as few calls as MLflow allows; tags from the run's creation are not set again."""
        from mlflow.entities import Param, RunTag

        new = dict(tags.items() - self.created_with.items())
        rest: dict[str, Any] = {
            "params": [Param(key, value[:LONGEST_VALUE]) for key, value in params.items()],
            "tags": [RunTag(key, value) for key, value in new.items()],
        }
        for first in range(0, max(len(metrics), 1), METRICS_PER_CALL):
            part = metrics[first : first + METRICS_PER_CALL]
            if part or any(rest.values()):
                self.client.log_batch(self.run_id, metrics=part, **rest)
            rest = {}

    def reopen(self) -> None:
        """Mark an ended run as running again, and remove its old error."""
        assert self.stored
        if self.stored.error:
            self.client.delete_tag(self.run_id, ERROR)
        self.client.update_run(self.run_id, status=RUNNING)
        self.changed(status=RUNNING, delivered="", error=False)

    def abandon(self, ended: float) -> None:
        """Mark a run whose process died as killed."""
        if self.stored and self.stored.status == RUNNING:
            self.client.set_terminated(self.run_id, KILLED, milliseconds(ended))
            self.changed(status=KILLED)

    def finish(self, status: str, ended: float, fingerprint: str) -> None:
        """Set the final status, after all else was delivered, and delete earlier runs of the same cell or sweep."""
        status = in_store(status)
        self.client.set_terminated(self.run_id, status, milliseconds(ended))
        for other in [run for run in self.namesakes if run.run_id != self.run_id]:
            self.experiment.delete(other)
            self.namesakes.remove(other)
        self.changed(status=status, delivered=fingerprint)
        self.experiment.delivered.append(self.folder.name)

    def log_files(self, files: Iterable[str], texts: dict[str, str] | None = None) -> None:
        """Log artifacts of the run in one call."""
        assert self.stored
        with self.bundle(files, texts or {}) as bundle:
            self.experiment.log_artifacts(self.stored.artifacts, bundle)

    @contextmanager
    def bundle(self, files: Iterable[str], texts: dict[str, str]) -> Iterator[Path]:
        """A folder with those files that exist in ours, and with texts by their name."""
        bundle = self.folder / ".bundle"
        shutil.rmtree(bundle, ignore_errors=True)
        bundle.mkdir()
        for name in files:
            if (self.folder / name).exists():
                os.link(self.folder / name, bundle / name)
        for name, text in texts.items():
            (bundle / name).write_text(text)
        yield bundle
        shutil.rmtree(bundle, ignore_errors=True)


def in_store(status: str) -> str:
    """MLflow has no word for a run that was stopped."""
    return KILLED if status == STOPPED else status


def milliseconds(seconds: float) -> int:
    """As MLflow counts time."""
    return int(seconds * 1000)
