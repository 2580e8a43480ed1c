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
PATIENCE = 60.0  # seconds that a worker waits for the verdict on its previous evaluation
OBJECTIVE = "objective"
HEAVY = ("weights.pt", "checkpoint.pt", "checkpoint.before", "predictions.parquet")  # not needed after a trial


class TrialJob(Settings):
    """What a worker needs to know. `folder` is relative to the runs folder; the cells are in the tuning's folder."""

    name: str
    settings: RunSettings
    seeds: list[int]
    metric: str
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
    """Run the seeds one after the other, and report after every evaluation.

    Steps count the epochs of all seeds; the value at a step is the mean over the seeds that are done and the one under
    way. A trial that was interrupted reports its steps again, from the checkpoints of its cells.
    """
    with large_imports():
        from permlab.platform.run.cell import run_cell

    folder = Path(job.runs) / job.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / HISTORY).unlink(missing_ok=True)
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
    return result | {"epochs": reporter.step, "seconds": time.perf_counter() - started}


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


class _Reporter:
    """Writes one line per evaluation; raises when the driver has pruned the trial."""

    def __init__(self, job: TrialJob, folder: Path) -> None:
        self.job, self.folder = job, folder
        self.values: list[float] = []  # of the seeds that are done
        self.lines: list[str] = []
        self.before, self.step, self.reported = 0, 0, 0
        self.heard = (folder / "run.json").exists()  # written by the driver, so it sees this folder

    def __call__(self, history: list[dict[str, Any]]) -> None:
        key = f"validation/{self.job.metric}"
        for entry in history:
            step = self.before + int(entry["epoch"])
            value = entry.get(key)
            if step > self.reported and value is not None and math.isfinite(value):
                self._write(entry | {"epoch": step, OBJECTIVE: mean([*self.values, value])})
                hopeless = self.heard and await_verdict(self.folder, self.reported)
                self.step = self.reported = step
                if hopeless:
                    raise RunPruned(f"{self.job.name} was pruned after {self.step} epochs")

    def next_seed(self, value: float | None) -> None:
        if value is None:
            raise RunError(f"the validation {self.job.metric} is NaN; a larger tune.validation may help")
        self.values.append(value)
        self.before += self.job.settings.train.epochs

    def _write(self, entry: dict[str, Any]) -> None:
        """Write all lines again, in case the file was damaged since."""
        self.lines.append(history_line(entry))
        with whole_file(self.folder / HISTORY) as file:
            file.write("".join(self.lines).encode())
