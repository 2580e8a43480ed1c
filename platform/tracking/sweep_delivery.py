"""Delivers a sweep or a tuning to MLflow, with its cells or trials."""

import hashlib
import time
from pathlib import Path
from typing import Any

from permlab.platform.errors import DamagedFile
from permlab.platform.files.json_files import load_json, read_json
from permlab.platform.run.histories import gather
from permlab.platform.run.stored_result import FINISHED, KILLED
from permlab.platform.tracking.cell_delivery import CellDelivery
from permlab.platform.tracking.delivery import RUNNING, Delivery, milliseconds
from permlab.platform.tracking.entities import dataset_input, source_tags
from permlab.platform.tracking.store import DELIVERED, PARENT, Experiment
from permlab.platform.tracking.sweep_summary import NOTE, REPORT, describe, mean_metrics, report_line
from permlab.platform.tracking.tuning_view import tuning_view
from permlab.platform.tracking.view import SWEEP, TUNING, objectives_of, shared_view

HISTORIES = "histories.parquet"
SWEEP_FILES = ("sweep.yaml", "plan.json", "results.csv", "results.md", "cells.csv", "tuned.yaml", "studies.json")


class SweepDelivery(Delivery):
    """A sweep: the parent run, its cells as children, and at the end its plan and results."""

    kind, command = "sweep", "sweep"

    def __init__(self, folder: Path, client: Any, experiment: Experiment | None = None) -> None:
        self.cells_folder = folder.parent.parent / "cells"
        self.plan = read_plan(folder)
        self.tags_of = {cell["key"]: cell.get("tags", {}) for cell in self.plan}  # a run does not know them
        self.keys = list(self.tags_of)
        self.waiting: dict[str, CellDelivery | None] = dict.fromkeys(self.keys)
        started = read_document(folder)["started"]
        experiment = experiment or Experiment(client, folder.name)
        tags = {f"permlab.{self.kind}": folder.name}
        super().__init__(folder, experiment, tags | source_tags(f"{self.command} {folder.name}", None), started)
        self.find(None)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def query(self) -> str:
        """What its page shows: a sweep and a tuning may share the experiment."""
        return f"tags.`permlab.{self.kind}` = '{self.folder.name}'"

    def advance(self, dead: bool = False) -> None:
        """Deliver what is new in the sweep and its cells. `dead`: its driver has died."""
        document = read_document(self.folder)
        status = document["status"] or (KILLED if dead else None)
        if self.stored is None:
            self.create(self.name)
        elif self.stored.status != RUNNING and not status:
            self.reopen()
            self._plan()
        assert self.stored
        if not self.stored.described:
            self.log(document["params"], {})
            self._plan()
            self.changed(described=True)
        for key in list(self.waiting):
            self._advance_cell(key, dead)
        self._arrange()
        if status:
            self._finish(status, document.get("ended", time.time()))

    def _advance_cell(self, key: str, dead: bool) -> None:
        """Deliver one cell; if its files are damaged, leave it out and check again later: it must be run again."""
        folder = self.cells_folder / key
        try:
            delivery = self.waiting[key]
            if delivery is None:
                if not (folder / "run.json").exists():
                    return
                tags = self.tags | self.tags_of.get(key, {}) | {PARENT: self.run_id}
                delivery = self.waiting[key] = CellDelivery(folder, self.client, self.experiment, tags)
            if delivery.advance(dead) == FINISHED:  # one that was killed or failed may start again
                del self.waiting[key]
            self.damaged.pop(key, None)
            self.on_progress()
        except DamagedFile as damage:
            self.waiting[key], self.damaged[key] = None, damage

    def _finish(self, status: str, ended: float) -> None:
        fingerprint = self._fingerprint()
        if not self.is_delivered(status, fingerprint):
            gather((self.cells_folder / key for key in self.keys), self.folder / HISTORIES)
            self.log_files((*SWEEP_FILES, HISTORIES))
            tags: dict[str, str] = {}
            metrics: list[Any] = []
            started = self._started_cells()
            if started:  # a tuning has none
                self.client.log_inputs(self.run_id, [dataset_input(run) for run in started])
                tags, metrics = self._summarise(started, ended)
            self.log({}, tags | {DELIVERED: fingerprint}, metrics)
            self.finish(status, ended, fingerprint)

    def _started_cells(self) -> list[dict[str, Any]]:
        """One cell of each data set, as far as one has started: its run.json."""
        runs: dict[str, dict[str, Any]] = {}
        for cell in self.plan:
            if cell["dataset"] not in runs and (run := read_json(self.cells_folder / cell["key"] / "run.json")):
                runs[cell["dataset"]] = run
        return list(runs.values())

    def _arrange(self) -> None:
        """Set the view of the experiment as soon as the cells say what they measure."""
        cells = self._started_cells()
        if objectives_of(cells):
            self.experiment.arrange(SWEEP, shared_view(cells, self.plan, self.query))

    def _summarise(self, started: list[dict[str, Any]], ended: float) -> tuple[dict[str, str], list[Any]]:
        """A description, and the means of the headline metrics."""
        from mlflow.entities import Metric

        headlines = {objective["headline"] for objective in objectives_of(started)}
        means = mean_metrics(self.folder, headlines)
        report = self.client.get_run(self.run_id).data.tags.get(REPORT)
        line = report and report_line(self.experiment.experiment_id, self.run_id, report)
        metrics = [Metric(name, mean, milliseconds(ended), 0) for name, mean in means.items()]
        return {NOTE: describe(self.folder, line)}, metrics

    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        for path in (self.folder / name for name in ("sweep.json", *SWEEP_FILES)):
            digest.update(hashlib.sha256(path.read_bytes() if path.exists() else b"").digest())
        return digest.hexdigest()

    def _plan(self) -> None:
        """Log the plan early: the report of an unfinished sweep says which cells are missing."""
        self.client.log_artifact(self.run_id, str(self.folder / "plan.json"))


class TuningDelivery(SweepDelivery):
    """A tuning: the parent run in the experiment of its sweep, and its trials as children, as they come."""

    kind, command = "tuning", "tune"

    def __init__(self, folder: Path, client: Any, experiment: Experiment | None = None) -> None:
        super().__init__(folder, client, experiment)
        self.cells_folder = folder / "trials"

    @property
    def name(self) -> str:
        return f"{self.folder.name} tuning"

    def advance(self, dead: bool = False) -> None:
        trials = {path.parent.name for path in self.cells_folder.glob("*/run.json")}
        self.waiting |= dict.fromkeys(sorted(trials - set(self.keys)))
        self.keys = sorted(trials)
        super().advance(dead)

    def _arrange(self) -> None:
        """Set the view of the tuning as soon as trials have started."""
        firsts = {key.rpartition("-t")[0]: key for key in reversed(self.keys)}.values()  # one of each study
        runs = [read_json(self.cells_folder / key / "run.json") or {} for key in firsts]
        if trials := [run for run in runs if "searched" in run]:  # older versions did not say it
            self.experiment.arrange(TUNING, tuning_view(trials, self.query))


def read_document(folder: Path) -> dict[str, Any]:
    document = load_json(folder / "sweep.json")
    if document is None:
        raise DamagedFile(folder / "sweep.json", "it is missing")
    return document


def read_plan(folder: Path) -> list[dict[str, Any]]:
    """The cells of a sweep; a tuning has none."""
    plan: list[dict[str, Any]] = (load_json(folder / "plan.json") or {"cells": []})["cells"]
    return plan
