"""Drives the studies of a tuning: asks for trials, hands them to workers, passes on their reports and results.

Knows neither Ray nor Optuna: `tasks` runs the jobs (see `Tasks` in `sweep/ray_tasks.py`), `Study` proposes and judges.
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from permlab.datasets.catalogue import parse_name
from permlab.platform.display.live_view import Ended, UnderWay
from permlab.platform.files.json_files import write_json
from permlab.platform.run.histories import whole_history
from permlab.platform.run.stored_result import FAILED, FINISHED, STOPPED
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import describe
from permlab.platform.tuning.space import with_values
from permlab.platform.tuning.study import Asked, Study
from permlab.platform.tuning.trial_task import HISTORY, OBJECTIVE, PROGRESS, VERDICT, TrialJob

ASK_AGAIN = 0.5  # seconds before asking again, if other drivers are using the budget of a study


class Tasks(Protocol):
    """Runs jobs."""

    room: int

    def __len__(self) -> int: ...

    def start(self, label: Any, runner: Callable[[Any], dict[str, Any]], job: Any, folder: str) -> None: ...

    def ended(self) -> Iterator[tuple[Any, dict[str, Any]]]: ...

    def cancel(self) -> None: ...


@dataclass
class Tuned:
    """A study, and what each of its trials runs: `settings` with every one of `seeds`."""

    study: Study
    settings: RunSettings
    seeds: list[int]
    metric: str
    dataset: dict[str, Any]  # name, digest, graphs, holdout
    under_way: dict[int, "Running"] = field(default_factory=dict)
    refused_at: float = 0.0  # when it last had no trial to give

    @property
    def label(self) -> str:
        fold = self.settings.data.fold
        return f"{self.settings.method}-d{self.settings.d}" + ("" if fold is None else f"-f{fold}")

    @property
    def facts(self) -> dict[str, str]:
        return {"dataset": self.settings.dataset, "method": self.settings.method, "d": str(self.settings.d)}

    def settings_with(self, values: dict[str, Any]) -> Any:
        """The settings of a trial that tries these values."""
        return with_values(self.settings, values)

    def job(self, number: int, settings: Any, runs: Path, folder: str) -> Any:
        """What a worker needs to run the trial; `folder` is relative to the runs folder."""
        return TrialJob(
            name=f"{self.study.name} trial {number}",
            settings=settings,
            seeds=self.seeds,
            metric=self.metric,
            by_seed=self.study.by_seed,
            runs=str(runs),
            folder=folder,
        )


@dataclass
class Running:
    """A trial that a worker is running."""

    asked: Asked
    folder: Path
    reported: int = 0  # the last step that was passed on
    pruned: bool = False


@dataclass
class TuneProgress:
    """Progress of a tuning: the trials of this driver."""

    finished: int = 0
    failed: int = 0
    under_way: dict[str, UnderWay] = field(default_factory=dict)  # by the trial's folder
    ended: list[Ended] = field(default_factory=list)  # since the last update
    stopping: str = ""  # why no more are started


class Driver:
    """Runs until every budget is spent, a signal comes, or more than `max_failed` trials have failed."""

    def __init__(
        self,
        studies: list[Tuned],
        tasks: Tasks,
        runner: Callable[[Any], dict[str, Any]],
        name: str,
        runs: Path,
        max_failed: int,
        parallel: int | None,
    ) -> None:
        self.studies, self.tasks, self.runner = studies, tasks, runner
        self.name, self.runs, self.max_failed, self.parallel = name, runs, max_failed, parallel
        self.progress = TuneProgress()

    def run(self, on_progress: Callable[[TuneProgress], None], stop_signal: Callable[[], int]) -> TuneProgress:
        progress = self.progress
        while True:
            if not progress.stopping:
                self._fill()
            ended = list(self.tasks.ended())
            self._pass_on()
            for (tuned, number), outcome in ended:
                self._settle(tuned, tuned.under_way.pop(number), outcome)
            if not progress.stopping and (stop_signal() or progress.failed > self.max_failed):
                progress.stopping = "stopping" if stop_signal() else f"giving up after {progress.failed} failed trials"
                self.tasks.cancel()
            on_progress(progress)
            if not len(self.tasks):
                if progress.stopping or all(tuned.study.over for tuned in self.studies):
                    return progress
                time.sleep(0.02)  # another driver is running the rest

    def _fill(self) -> None:
        """Give free room to the studies with the fewest trials under way."""
        while len(self.tasks) < self.tasks.room:
            ready = [tuned for tuned in self.studies if self._may_ask(tuned)]
            if not ready:
                return
            tuned = min(ready, key=lambda tuned: len(tuned.under_way))
            asked = tuned.study.ask()
            if asked is None:
                tuned.refused_at = time.monotonic()
            else:
                self._start(tuned, asked)

    def _may_ask(self, tuned: Tuned) -> bool:
        if self.parallel is not None and len(tuned.under_way) >= self.parallel:
            return False
        return time.monotonic() - tuned.refused_at > ASK_AGAIN

    def _start(self, tuned: Tuned, asked: Asked) -> None:
        settings, dataset = tuned.settings_with(asked.values), tuned.settings.dataset
        trial = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{parse_name(dataset).folder}-{tuned.label}-t{asked.number}")
        relative = f"tunings/{self.name}/trials/{trial}"
        folder = self.runs / relative
        folder.mkdir(parents=True, exist_ok=True)
        for old in ("result.json", HISTORY, PROGRESS, VERDICT):
            (folder / old).unlink(missing_ok=True)
        tags = {"study": tuned.study.name, "trial": str(asked.number)}
        write_json(
            folder / "run.json",
            {
                "name": f"{tuned.label}-t{asked.number}",
                "tags": tags | tuned.facts,
                "params": {key: str(value) for key, value in asked.values.items()}
                | {key: str(value) for key, value, _ in describe(type(settings), settings)}
                | {"seed": ", ".join(map(str, tuned.seeds))},
                "values": asked.values,
                "searched": list(tuned.study.space),
                "measure": tuned.study.measure,
                "maximise": tuned.study.maximise,
                "epochs": tuned.study.steps,
                "dataset": tuned.dataset,
                "started": time.time(),
            },
        )
        tuned.under_way[asked.number] = Running(asked, folder)
        job = tuned.job(asked.number, settings, self.runs, relative)
        several = len({each.settings.dataset for each in self.studies}) > 1
        name = f"{dataset} " * several + f"{tuned.label} trial {asked.number}"
        self.progress.under_way[relative] = UnderWay(name, folder / PROGRESS, tuned.study.steps)
        self.tasks.start((tuned, asked.number), self.runner, job, relative)

    def _pass_on(self) -> None:
        """Pass reports to the study in order; those after the one that pruned a trial do not count."""
        for tuned in self.studies:
            for number, running in tuned.under_way.items():
                for entry in whole_history(running.folder):  # empty if damaged: its worker writes it again
                    if running.pruned or entry["epoch"] <= running.reported:
                        continue
                    running.reported = entry["epoch"]
                    running.pruned = tuned.study.report(number, entry["epoch"], entry[OBJECTIVE])
                    write_json(running.folder / VERDICT, {"step": running.reported, "stop": running.pruned})

    def _settle(self, tuned: Tuned, running: Running, outcome: dict[str, Any]) -> None:
        number, result = running.asked.number, outcome.get("result", {})
        study, progress, value = tuned.study, self.progress, result.get("value")
        status, state, shown, said = outcome["status"], "COMPLETE", "finished", ""
        if status == FINISHED and running.pruned:
            state, value, shown = "PRUNED", None, "pruned"
            study.prune(number, result["epochs"], result["seconds"])
            progress.finished += 1
        elif status == FINISHED:
            study.complete(number, value, result["epochs"], result["seconds"])
            progress.finished += 1
            said = f"{tuned.study.measure} {value:.4f}"
        elif status == FAILED:
            state, shown, said = "FAIL", "failed", outcome["error"]
            study.fail(number, outcome["error"])
            progress.failed += 1
        else:
            state, shown, status = "WAITING", "stopped", STOPPED
            study.release(number)
        one = progress.under_way.pop(str(running.folder.relative_to(self.runs)))
        epochs = f"{result['epochs']} of {one.epochs}" if result else ""
        progress.ended.append(Ended(one.name, shown, epochs, said, result.get("seconds")))
        tuned.refused_at = 0.0
        document = {"status": status, "ended": time.time(), "error": outcome.get("error"), "value": value}
        facts = {"epochs": result.get("epochs"), "seconds": result.get("seconds"), "tags": {"state": state.lower()}}
        write_json(running.folder / "result.json", document | facts)
