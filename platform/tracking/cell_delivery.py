"""Delivers a run to MLflow: its settings, its epochs as they come, and its result.

`delivered-*.json` beside a run records how much of it was delivered, one file per store and experiment, until the run
is finished.
"""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import yaml

from permlab.platform.errors import DamagedFile
from permlab.platform.files.json_files import load_json, read_json, write_json
from permlab.platform.run.histories import read_history
from permlab.platform.run.stored_result import FINISHED, PREDICTIONS, WEIGHTS, check_files, outcome, read_result
from permlab.platform.tracking.delivery import RUNNING, Delivery, milliseconds
from permlab.platform.tracking.entities import MODEL_FILES, dataset_input, model_name, model_text, source_tags
from permlab.platform.tracking.store import DELIVERED, ERROR, PARENT, Experiment
from permlab.platform.tracking.tuning_view import VALUE
from permlab.platform.tracking.view import ONCE, SWEEP, shared_view

LONGEST_ERROR = 1000  # characters of the tag that says what went wrong
FILES = (PREDICTIONS, WEIGHTS, "run.json", "history.jsonl", "result.json", "error.txt")

Point = tuple[str, float | None, float, int]  # name, value, time, step


class CellDelivery(Delivery):
    """A run: its settings, its epochs, and at the end its artifacts and status."""

    def __init__(
        self, folder: Path, client: Any, experiment: Experiment | None = None, tags: dict[str, str] | None = None
    ) -> None:
        """`tags` are added to the run's own: its sweep, and what the sweep's plan says about it."""
        self.run, self.more_tags = read_run(folder), tags or {}
        if experiment is None:
            query = f"tags.`permlab.key` = '{self.run['tags']['permlab.key']}'"
            experiment = Experiment(client, self.run["experiment"], query)
        super().__init__(folder, experiment, self._tags, self.run["started"])
        destination = hashlib.sha256(f"{client.tracking_uri} {experiment.name}".encode()).hexdigest()[:10]
        self.note = folder / f"delivered-{destination}.json"
        noted = read_json(self.note) or {}
        self.find(None, noted.get("run_id"))
        if self.stored is None or self.stored.run_id != noted.get("run_id"):
            noted = {"epoch": 0, "sending": {}}
        self.epoch: int = noted["epoch"]  # the last one that was delivered
        self.sending: dict[str, float] = noted["sending"]  # times of epochs that the store may have already

    @property
    def _tags(self) -> dict[str, str]:
        commit = self.run["tags"].get("git.commit")
        return self.run["tags"] | source_tags("train", commit) | self.more_tags

    def advance(self, dead: bool = False) -> str | None:
        """Deliver what is new; returns how the run ended, None if it has not. `dead`: its process has died."""
        result = read_result(self.folder)
        if result and self._is_delivered(result):
            return str(result["status"])
        history = read_history(self.folder)
        if result:
            check_files(self.folder, result)
        if self.stored is None:
            self.create(self.run["name"])
        elif self.stored.status != RUNNING and not (dead and not result):
            self.reopen()
        self._log(history, result)
        if not self.more_tags:
            self._arrange()
        if result:
            self._finish(result)
        elif dead:
            self.abandon(max(path.stat().st_mtime for path in self.folder.iterdir()))
        return str(result["status"]) if result else None

    def _is_delivered(self, result: dict[str, Any]) -> bool:
        self.run = read_run(self.folder)  # it has changed if the run was started again
        self.tags, self.started = self._tags, milliseconds(self.run["started"])
        fingerprint = self._fingerprint(result)
        if self.stored is None:
            self.find(fingerprint)
        if self.stored and self.stored.parent != self.tags.get(PARENT, self.stored.parent):
            self._join_sweep()
        return self.is_delivered(result["status"], fingerprint)

    def _fingerprint(self, result: dict[str, Any]) -> str:
        return hashlib.sha256(json.dumps([self.run, result], sort_keys=True).encode()).hexdigest()

    def _join_sweep(self) -> None:
        """Attach the run to our sweep: it was delivered by itself, or under another parent run."""
        self.log({}, self.more_tags)
        self.changed(parent=self.tags[PARENT])

    def _log(self, history: list[dict[str, Any]], result: dict[str, Any] | None) -> None:
        """Log the data set and parameters of a new run, the metrics of new epochs, and at the end the outcome."""
        from mlflow.entities import Metric

        assert self.stored
        described, points, tags = self.stored.described, self._points(history, result), {}
        if not described:
            self.client.log_inputs(self.run_id, [dataset_input(self.run)])
        if result:
            once = {ONCE + name: value for name, value in outcome(result).items()} | {VALUE: result.get("value")}
            points += [(name, value, result["ended"], 0) for name, value in once.items()]
            tags = self.tags | result.get("tags", {}) | {DELIVERED: self._fingerprint(result)}
        if result and result.get("error"):
            tags[ERROR] = result["error"][:LONGEST_ERROR]
        metrics = [Metric(name, float(v), milliseconds(at), step) for name, v, at, step in points if v is not None]
        self.log({} if described else self.run["params"], tags, metrics)
        self.changed(described=True, error=ERROR in tags)
        self.epoch = max([self.epoch, *(entry["epoch"] for entry in history)])
        if points and not result:
            self._write_note({})

    def _arrange(self) -> None:
        """Set the view of the experiment of single runs."""
        if "objective" in self.run["tags"]:
            self.experiment.arrange(SWEEP, shared_view([self.run]))

    def _points(self, history: list[dict[str, Any]], result: dict[str, Any] | None) -> list[Point]:
        """The metrics of new epochs.

        A point that is sent again must not count twice, so it must have the same time: for a run under way the time is
        noted before sending, and points seen only after the run has ended get the time of its end.
        """
        entries = [entry for entry in history if entry["epoch"] > self.epoch]
        moment = result["ended"] if result else time.time()
        times = {str(entry["epoch"]): self.sending.get(str(entry["epoch"]), moment) for entry in entries}
        if entries and not result:
            self._write_note(times)
        return [
            (name, value, times[str(entry["epoch"])], int(entry["epoch"]))
            for entry in entries
            for name, value in entry.items()
            if name != "epoch"
        ]

    def _finish(self, result: dict[str, Any]) -> None:
        settings = self.run.get("settings")  # a tuning's trial has none
        texts = {"config.yaml": yaml.safe_dump(settings, sort_keys=False)} if settings else {}
        self.log_files(FILES, texts)
        has_model = all((self.folder / name).exists() for name in (WEIGHTS, PREDICTIONS))  # may have been removed
        if result["status"] == FINISHED and has_model and "model" in self.run:
            self._log_model()
        self.finish(result["status"], self._ended(result), self._fingerprint(result))
        if result["status"] == FINISHED:
            self.note.unlink(missing_ok=True)
        else:
            self._write_note({})  # it may be resumed

    def _ended(self, result: dict[str, Any]) -> float:
        """When it would have ended without a pause: MLflow's duration of a run counts from the first start.

        The seconds of training are those of all attempts.
        """
        assert self.stored
        return self.stored.started / 1000 + max(result["ended"] - self.run["started"], result.get("seconds") or 0.0)

    def _log_model(self) -> None:
        """Store the model once; one that a killed courier left is completed."""
        from mlflow.entities import LoggedModelOutput

        known = [] if self.created_with else self.experiment.models(self.run_id)
        model = known[0] if known else self._create_model()
        text = model_text(self.folder, model.model_id, self.run_id)
        with self.bundle(MODEL_FILES, {"MLmodel": text}) as bundle:
            self.experiment.log_artifacts(model.artifact_location, bundle)
        if not known or not self.client.get_run(self.run_id).outputs.model_outputs:
            self.client.log_outputs(self.run_id, [LoggedModelOutput(model.model_id, step=0)])
        self.client.finalize_logged_model(model.model_id, "READY")

    def _create_model(self) -> Any:
        facts = {name: self.run["tags"][name] for name in ("dataset", "method", "d", "seed")}
        place = (self.experiment.experiment_id, model_name(self.run), self.run_id)
        return self.client.create_logged_model(*place, params=facts, model_type="graph readout")

    def _write_note(self, sending: dict[str, float]) -> None:
        self.sending = sending
        write_json(self.note, {"run_id": self.run_id, "epoch": self.epoch, "sending": sending})


def read_run(folder: Path) -> dict[str, Any]:
    run = load_json(folder / "run.json")
    if run is None:
        raise DamagedFile(folder / "run.json", "it is missing")
    return run
