"""One trial, in a worker: the same settings with each of a few seeds; the mean of their last evaluations counts."""

import math
import time
from pathlib import Path
from statistics import mean
from typing import Any

from permlab.platform.errors import RunError, RunPruned
from permlab.platform.files.json_files import read_json
from permlab.platform.files.whole_file import whole_file
from permlab.platform.large_imports import large_imports
from permlab.platform.run.histories import history_line, read_history
from permlab.platform.settings.run import RunSettings, Settings, cell_folder, cell_key
from permlab.platform.sweep.plan import manifest_of

HISTORY, VERDICT = "history.jsonl", "verdict"  # what the worker tells the driver, and the driver's answer
PROGRESS = "progress.jsonl"  # what it shows to people
PATIENCE = 60.0  # seconds that a worker waits for the verdict on its previous evaluation
OBJECTIVE = "objective"
HEAVY = ("weights.pt", "checkpoint.pt", "checkpoint.before", "predictions.parquet")  # not needed after a trial


class TrialJob(Settings):
    """What a worker needs to know. `folder` is relative to the runs folder; the cells are in the tuning's folder."""

    name: str
    settings: RunSettings
    seeds: list[int]
    metric: str
    by_seed: bool = False  # the steps that are judged are seeds, not epochs of the first seed
    runs: str
    folder: str

    @property
    def dataset(self) -> str:
        return self.settings.dataset

    @property
    def splits_file(self) -> str | None:
        return self.settings.data.splits_file

    @property
    def codes(self) -> list[str]:
        return self.settings.codes


def run_trial(job: TrialJob) -> dict[str, Any]:
    """Run the seeds one after the other, and report steps for the pruner to judge: all trials have the same seeds, so
    it compares like with like. A trial that was interrupted reports its steps again, from the checkpoints of its cells.
    """
    with large_imports():
        from permlab.platform.run.cell import run_cell

    folder = Path(job.runs) / job.folder
    folder.mkdir(parents=True, exist_ok=True)
    runs, digest = str(folder.parent.parent), manifest_of(job.dataset).digest
    cells = [job.settings.model_copy(update={"seed": seed, "runs": runs}) for seed in job.seeds]
    folders = [cell_folder(cell, cell_key(cell, digest)) for cell in cells]
    reporter = _Reporter(job, folder)
    started = time.perf_counter()
    result: dict[str, Any] = {}
    try:
        for cell, path in zip(cells, folders, strict=True):
            metrics = run_cell(cell, on_epoch=reporter)["metrics"]["validation"]
            reporter(read_history(path))  # also the epochs of an earlier attempt
            reporter.next_seed(metrics[job.metric])
        result = {"value": mean(reporter.values)}
    except RunPruned:
        pass
    for path in folders:
        for name in HEAVY:
            (path / name).unlink(missing_ok=True)
    return result | {"epochs": reporter.epochs, "seconds": time.perf_counter() - started}


def await_verdict(folder: Path, step: int) -> bool:
    """Has the driver pruned the trial? It judges while the worker trains, at most one evaluation late."""
    limit = time.monotonic() + PATIENCE
    while True:
        judged, hopeless = read_verdict(folder)
        if hopeless or judged >= step or time.monotonic() > limit:
            return hopeless
        time.sleep(0.01)


def read_verdict(folder: Path) -> tuple[int, bool]:
    """The last step that was judged, and whether the trial is to end."""
    verdict = read_json(folder / VERDICT) or {}
    return verdict.get("step", 0), verdict.get("stop", False)


class Steps:
    """Reports steps of a trial to the driver, which judges them. Raises when it has pruned the trial."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.lines: list[str] = []
        self.reported = 0  # the last step
        self.heard = (folder / "run.json").exists()  # written by the driver, so it sees this folder
        for old in (HISTORY, PROGRESS):
            (folder / old).unlink(missing_ok=True)

    def report(self, entry: dict[str, Any]) -> None:
        """Write all lines again, in case the file was damaged since, and hear what became of the step before."""
        self.lines.append(history_line(entry))
        with whole_file(self.folder / HISTORY) as file:
            file.write("".join(self.lines).encode())
        self.hear()
        self.reported = int(entry["epoch"])

    def hear(self) -> None:
        """The driver's verdict on the last step."""
        if self.heard and await_verdict(self.folder, self.reported):
            raise RunPruned(f"{self.name} was pruned")

    def show(self, entry: dict[str, Any]) -> None:
        """How far the trial is, for people."""
        with (self.folder / PROGRESS).open("a") as file:
            file.write(history_line(entry))


class _Reporter:
    """Reports the evaluations of the first seed by their epochs, or each seed when it is done."""

    def __init__(self, job: TrialJob, folder: Path) -> None:
        self.job, self.steps = job, Steps(job.name, folder)
        self.values: list[float] = []  # of the seeds that are done
        self.epochs = 0  # of all seeds

    def __call__(self, history: list[dict[str, Any]]) -> None:
        """The history of the seed under way."""
        key, before = f"validation/{self.job.metric}", len(self.values) * self.job.settings.train.epochs
        for entry in history:
            epochs, value = before + int(entry["epoch"]), entry.get(key)
            if epochs > self.epochs and value is not None and math.isfinite(value):
                self.epochs = epochs
                self.steps.show({"epoch": self.epochs, key: mean([*self.values, value])})
                if not self.job.by_seed and not self.values:
                    self.steps.report(entry | {OBJECTIVE: value})

    def next_seed(self, value: float | None) -> None:
        if value is None:
            raise RunError(f"the validation {self.job.metric} is NaN; a larger tune.validation may help")
        self.values.append(value)
        if self.job.by_seed:
            self.steps.report({"epoch": len(self.values), OBJECTIVE: value})
        if len(self.values) < len(self.job.seeds):
            self.steps.hear()
