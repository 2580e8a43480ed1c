"""Driving studies with a cheap objective, without Ray or torch: budgets, resuming, kills, several drivers.

As a script it is such a driver: python test_driver.py URL RUNS TRIALS
"""

import base64
import json
import random
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import optuna
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import ProgrammingError

from permlab.platform.errors import ConfigError
from permlab.platform.files.json_files import read_json
from permlab.platform.settings.run import RunSettings
from permlab.platform.tracking.tuning_view import tuning_view
from permlab.platform.tuning.driver import Driver, Tuned
from permlab.platform.tuning.lease import open_lease
from permlab.platform.tuning.prepare import choose, summary
from permlab.platform.tuning.settings import TuneSettings
from permlab.platform.tuning.space import defaults, parse_space
from permlab.platform.tuning.study import Study, open_storage
from permlab.platform.tuning.trial_task import HISTORY, TrialJob, await_verdict

SPACE = {"train.learning_rate": {"low": 1e-4, "high": 1e-1, "log": True}, "train.batch_size": [32, 64, 128]}
EPOCHS = 6
NAME = "cheap/synthetic/sum/d3"


class Inline:
    """Runs a job immediately, in this process."""

    room = 1

    def __init__(self) -> None:
        self.done: list[tuple[Any, dict[str, Any]]] = []

    def __len__(self) -> int:
        return len(self.done)

    def start(self, label: Any, runner: Callable[[Any], dict[str, Any]], job: Any, folder: str) -> None:
        try:
            self.done.append((label, {"status": "FINISHED", "result": runner(job)}))
        except ValueError as error:
            self.done.append((label, {"status": "FAILED", "error": str(error)}))
        except InterruptedError:
            self.done.append((label, {"status": "STOPPED"}))

    def ended(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        done, self.done = self.done, []
        yield from done

    def cancel(self) -> None:
        pass


class Threads(Inline):
    """Three jobs at a time."""

    room = 3

    def __init__(self) -> None:
        self.pool, self.under_way = ThreadPoolExecutor(3), dict[Future[Any], Any]()

    def __len__(self) -> int:
        return len(self.under_way)

    def start(self, label: Any, runner: Callable[[Any], dict[str, Any]], job: Any, folder: str) -> None:
        self.under_way[self.pool.submit(runner, job)] = label

    def ended(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        time.sleep(0.005)
        for future in [future for future in self.under_way if future.done()]:
            yield self.under_way.pop(future), {"status": "FINISHED", "result": future.result()}


def goodness(job: TrialJob) -> float:
    return 1 - abs(job.settings.train.learning_rate - 0.01) - job.settings.train.batch_size / 10_000


def objective(job: TrialJob, pause: float = 0.0, waits: bool = False) -> dict[str, Any]:
    """Best at a learning rate of 0.01; grows from epoch to epoch. `waits`: for the verdict, like a real trial."""
    folder = Path(job.runs) / job.folder
    for epoch in range(1, EPOCHS + 1):
        time.sleep(pause)
        with (folder / HISTORY).open("a") as file:
            file.write(json.dumps({"epoch": epoch, "objective": goodness(job) * epoch / EPOCHS}) + "\n")
        if waits and await_verdict(folder, epoch - 1):
            return {"epochs": epoch, "seconds": 1.0}
    return {"value": goodness(job), "epochs": EPOCHS, "seconds": 1.0}


def slow_objective(job: TrialJob) -> dict[str, Any]:
    return objective(job, pause=0.01, waits=True)


def open_study(
    url: str, lease: Any, options: TuneSettings, design: dict[str, Any] | None = None, name: str = NAME
) -> Study:
    space = parse_space(options.space or SPACE)
    return Study(
        name=name,
        storage=open_storage(url, lease),
        lease=lease,
        space=space,
        defaults=defaults(RunSettings(), space),
        measure="validation AUC",
        maximise=True,
        tune=options,
        epochs=EPOCHS,
        every=1,
        design={"seed": options.seed} if design is None else design,
    )


def drive(
    url: str,
    runs: Path,
    *,
    tasks: Any = None,
    runner: Any = objective,
    stop: Callable[[], int] = lambda: 0,
    max_failed: int = 3,
    design: dict[str, Any] | None = None,
    method: str = "sum",
    **tune: Any,
) -> dict[str, Any]:
    """Drive one study to its end; returns its summary and its choice."""
    options = TuneSettings(**{"space": SPACE, "seeds": 1} | tune)
    settings = RunSettings(dataset="synthetic", method=method, d=3, train={"epochs": EPOCHS})  # type: ignore[arg-type]
    lease = open_lease(url)
    try:
        study = open_study(url, lease, options, design)
        tuned = Tuned(
            study,
            settings,
            list(range(options.seeds)),
            "auc",
            {"name": "synthetic", "digest": "d", "graphs": 1, "holdout": 0.2},
        )
        driver = Driver(
            [tuned], Inline() if tasks is None else tasks, runner, "cheap", runs, max_failed, options.parallel
        )
        progress = driver.run(lambda progress: None, stop)
        choice = choose(tuned)
        return summary(tuned) | {"failed": progress.failed, "choice": choice and choice.model_dump()}
    finally:
        lease.close()


def trials(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What must be the same every time a study is run."""
    return [(row["number"], row["state"], row["value"], row["values"], row["steps"]) for row in document["trials"]]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'study.db'}"


def test_a_study_is_reproducible_and_the_first_trial_is_the_default(url: str, tmp_path: Path) -> None:
    first = drive(url, tmp_path / "a", trials=14)
    assert first["trials"][0]["values"] == {"train.learning_rate": 1e-3, "train.batch_size": 128}
    assert first["finished"] == 14 and 0 < first["pruned"] < 9  # the first five are never pruned
    again = drive(url.replace("study", "again"), tmp_path / "b", trials=14)
    assert trials(again) == trials(first)
    other = drive(url.replace("study", "other"), tmp_path / "c", trials=14, seed=1)
    assert trials(other)[1:] != trials(first)[1:]


@pytest.mark.parametrize(("sampler", "count"), [("tpe", 20), ("gp", 13)])
def test_a_sampler_learns(url: str, tmp_path: Path, sampler: str, count: int) -> None:
    """Its later trials are better than random ones on average."""

    def late(sampler: str) -> float:
        study = drive(url.replace("study", sampler), tmp_path / sampler, trials=count, pruner="none", sampler=sampler)
        return sum(row["value"] for row in study["trials"][10:]) / (count - 10)

    assert late(sampler) > late("random")


@pytest.mark.parametrize(("sampler", "trial"), [("tpe", 0), ("tpe", 8), ("gp", 8)])
def test_an_interrupted_study_gives_the_same_result(url: str, tmp_path: Path, sampler: str, trial: int) -> None:
    whole = drive(url.replace("study", "whole"), tmp_path / "whole", trials=12, sampler=sampler)

    class Died(BaseException):
        pass

    def dies(job: TrialJob) -> dict[str, Any]:
        if job.name.endswith(f"trial {trial}"):
            folder = Path(job.runs) / job.folder
            (folder / HISTORY).write_text(json.dumps({"epoch": 1, "objective": 0.1}) + "\n")
            raise Died
        return objective(job)

    with pytest.raises(Died):
        drive(url, tmp_path / "runs", trials=12, sampler=sampler, runner=dies)
    assert trials(drive(url, tmp_path / "runs", trials=12, sampler=sampler)) == trials(whole)


def test_a_stopped_study_resumes_with_the_same_trial(url: str, tmp_path: Path) -> None:
    calls = []

    def stopped(job: TrialJob) -> dict[str, Any]:
        calls.append(job)
        if len(calls) == 4:
            raise InterruptedError
        return objective(job)

    half = drive(url, tmp_path, trials=12, runner=stopped, stop=lambda: int(len(calls) == 4))
    assert [row["state"] for row in half["trials"]] == ["COMPLETE"] * 3 + ["WAITING"]
    assert read_json(Path(tmp_path) / calls[3].folder / "result.json")["tags"] == {"state": "waiting"}  # type: ignore[index]
    whole = drive(url.replace("study", "whole"), tmp_path / "whole", trials=12)
    assert trials(drive(url, tmp_path, trials=12)) == trials(whole)


def test_budgets_of_epochs_and_seconds_and_a_larger_one(url: str, tmp_path: Path) -> None:
    assert drive(url, tmp_path, epochs=20, pruner="none")["finished"] == 4  # 4 × 6 epochs reach 20
    assert drive(url, tmp_path, seconds=6.5, pruner="none")["finished"] == 7  # one second each, the first four included
    more = drive(url, tmp_path, trials=9, pruner="none")
    assert more["finished"] == 9 and [row["number"] for row in more["trials"]] == list(range(9))
    assert drive(url, tmp_path, trials=5, pruner="none")["finished"] == 9  # nothing to do


def test_failed_trials_do_not_count_and_too_many_end_it(url: str, tmp_path: Path) -> None:
    def fails_once(job: TrialJob) -> dict[str, Any]:
        if job.name.endswith("trial 2"):
            raise ValueError("the loss is nan")
        return objective(job)

    study = drive(url, tmp_path, trials=6, runner=fails_once)
    assert study["finished"] == 6 and [row["state"] for row in study["trials"]].count("FAIL") == 1

    def fails(job: TrialJob) -> dict[str, Any]:
        raise ValueError("no")

    hopeless = drive(url.replace("study", "hopeless"), tmp_path / "h", trials=6, runner=fails)
    assert (hopeless["failed"], hopeless["finished"], hopeless["choice"]) == (4, 0, None)


def test_a_pruned_trial_stops_at_its_next_evaluation(url: str, tmp_path: Path) -> None:
    study = drive(url, tmp_path, trials=20, tasks=Threads(), runner=lambda job: objective(job, waits=True))
    pruned = [row for row in study["trials"] if row["state"] == "PRUNED"]
    assert pruned and all(row["epochs"] <= max(row["steps"]) + 1 for row in pruned)
    assert study["epochs"] == sum(row["epochs"] for row in study["trials"])
    assert study["choice"]["value"] == max(row["value"] for row in study["trials"] if row["value"] is not None)


@pytest.mark.parametrize("pruner", ["hyperband", "none"])
def test_other_pruners(url: str, tmp_path: Path, pruner: str) -> None:
    study = drive(url, tmp_path, trials=15, pruner=pruner)
    assert study["finished"] == 15 and (study["pruned"] > 0) == (pruner == "hyperband")
    assert set(study["importances"]) == set(SPACE)


def seed_by_seed(job: TrialJob) -> dict[str, Any]:
    """Every seed is a little luckier than the one before, in all trials alike."""
    folder = Path(job.runs) / job.folder
    for seed in job.seeds:
        with (folder / HISTORY).open("a") as file:
            file.write(json.dumps({"epoch": seed + 1, "objective": goodness(job) + seed / 100}) + "\n")
        if seed + 1 < len(job.seeds) and await_verdict(folder, seed + 1):
            return {"epochs": EPOCHS * (seed + 1), "seconds": 1.0}
    return {"value": goodness(job), "epochs": EPOCHS * len(job.seeds), "seconds": 1.0}


def test_wilcoxon_compares_trials_seed_by_seed(url: str, tmp_path: Path) -> None:
    study = drive(url, tmp_path, trials=10, pruner="wilcoxon", seeds=6, tasks=Threads(), runner=seed_by_seed)
    pruned = [row for row in study["trials"] if row["state"] == "PRUNED"]
    assert pruned and all(set(row["steps"]) == {1, 2, 3, 4} and row["epochs"] == 4 * EPOCHS for row in pruned)
    assert study["steps"] == 6 * EPOCHS
    with pytest.raises(ValueError, match=r"wilcoxon .*tune.seeds to 5 or more"):
        TuneSettings(pruner="wilcoxon", seeds=4)


def test_what_optunas_dashboard_shows(url: str, tmp_path: Path) -> None:
    drive(url, tmp_path, trials=6, pruner="none", seeds=2, design={"train.epochs": EPOCHS, "tune.space": SPACE})
    study = optuna.load_study(study_name=NAME, storage=url)
    assert study.metric_names == ["validation AUC"]
    assert study.user_attrs == {"train.epochs": EPOCHS, "tune.space": SPACE}
    assert all(set(trial.intermediate_values) == set(range(1, EPOCHS + 1)) for trial in study.get_trials())


def test_a_study_of_the_version_before_kept_its_design_in_one_attribute(url: str, tmp_path: Path) -> None:
    drive(url, tmp_path, trials=2, design={})
    optuna.load_study(study_name=NAME, storage=url).set_user_attr("design", {"train.epochs": 6})
    assert drive(url, tmp_path, trials=3, design={"train.epochs": 6})["finished"] == 3
    with pytest.raises(ConfigError, match=r"train.epochs=6.* 7"):
        drive(url, tmp_path, trials=4, design={"train.epochs": 7})


def test_sqlite_takes_one_driver(url: str, tmp_path: Path) -> None:
    lease = open_lease(url)
    with pytest.raises(ConfigError, match="another process .*study.db"):
        drive(url, tmp_path, trials=3)
    lease.close()
    assert drive(url, tmp_path, trials=3)["finished"] == 3


def test_a_study_does_not_change_its_design(url: str, tmp_path: Path) -> None:
    drive(url, tmp_path, trials=2, design={"train.epochs": 6})
    with pytest.raises(ConfigError, match=r"train.epochs=6.* 7; .*name="):
        drive(url, tmp_path, trials=2, design={"train.epochs": 7})


def test_two_drivers_killed_at_random_share_a_budget(postgres: str, tmp_path: Path) -> None:
    """Exactly 40 finished trials in total, each number once, none left RUNNING, none cut short."""
    chance = random.Random(0)
    processes = [start(postgres, tmp_path / str(i)) for i in range(2)]
    kills = 0
    limit = time.monotonic() + 240
    while any(process.poll() is None for process in processes):
        assert time.monotonic() < limit
        assert not any(process.returncode for process in processes), errors_of(tmp_path)
        states = stored(postgres)
        if kills < 3 and states.count("COMPLETE") + states.count("PRUNED") > 8 * (kills + 1):
            victim = chance.randrange(2)
            processes[victim].kill()
            processes[victim].wait()
            kills += 1
            processes[victim] = start(postgres, tmp_path / str(victim))
        time.sleep(0.02)
    assert kills == 3, "they were done before they were killed"
    assert [process.returncode for process in processes] == [0, 0], errors_of(tmp_path)
    rows = json.loads((tmp_path / "0.out").read_text())["trials"]
    assert sorted(row["number"] for row in rows) == list(range(40))
    assert {row["state"] for row in rows} == {"COMPLETE", "PRUNED"}
    assert all(row["epochs"] == EPOCHS for row in rows if row["state"] == "COMPLETE")


def test_a_trial_that_ends_while_another_driver_looks_is_not_taken_back(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = TuneSettings(space=SPACE, seeds=1, trials=2)
    first, second = (open_study(postgres, open_lease(postgres), options, name="race") for _ in range(2))
    asked = first.ask()
    assert asked

    def ends_and_dies(_: int | None) -> bool:
        first.complete(asked.number, 0.5, EPOCHS, 1.0)
        first.lease.close()
        return False

    monkeypatch.setattr(second.lease, "alive", ends_and_dies)
    following = second.ask()
    assert following and following.number == 1 and second.finished == 1
    second.lease.close()


def start(url: str, runs: Path) -> subprocess.Popen[str]:
    """Its output goes to files: a full pipe that nobody reads would block the driver."""
    command = [sys.executable, __file__, url, str(runs), "40"]
    with runs.with_suffix(".out").open("w") as out, runs.with_suffix(".err").open("w") as err:
        return subprocess.Popen(command, stdout=out, stderr=err, text=True)


def errors_of(folder: Path) -> list[str]:
    return [path.read_text()[-2000:] for path in sorted(folder.glob("*.err"))]


def stored(url: str) -> list[str]:
    """States of the trials in the database."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return [row[0] for row in connection.execute(text("SELECT state::text FROM trials"))]
    except ProgrammingError:  # no tables yet
        return []
    finally:
        engine.dispose()


def test_a_password_comes_from_the_address_the_environment_or_a_file(
    with_password: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked = with_password.replace("tuner@", "tuner:***@")
    with pytest.raises(ConfigError, match="password"):
        for _ in range(100):  # until the server has reloaded its rules
            open_lease(with_password).close()
            time.sleep(0.05)
    for given in ("s3/cret", "s3%2Fcret"):
        open_lease(with_password.replace("tuner@", f"tuner:{given}@")).close()
    monkeypatch.setenv("PGPASSWORD", "s3/cret")
    for url in (with_password, masked):  # as typed, and as in sweep.yaml
        open_lease(str(TuneSettings(storage=url).storage)).close()
    monkeypatch.delenv("PGPASSWORD")
    (tmp_path / "pgpass").write_text("*:*:*:tuner:s3/cret\n")
    (tmp_path / "pgpass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    open_lease(with_password).close()


def test_a_database_that_is_down_is_an_error_of_one_line() -> None:
    with pytest.raises(ConfigError) as error:
        open_lease("postgresql://me:secret@127.0.0.1:1/studies")
    message = str(error.value)
    assert "127.0.0.1:1" in message and "cannot be reached" in message
    assert "secret" not in message and "\n" not in message


if __name__ == "__main__":
    _, database, folder, count = sys.argv
    sys.stdout.write(
        json.dumps(drive(database, Path(folder), tasks=Threads(), runner=slow_objective, trials=int(count)))
    )


def test_searched_options_of_a_readout_are_parameters_of_its_trials(url: str, tmp_path: Path) -> None:
    """The page of the tuning draws what is a parameter of every trial."""
    space = {"readout.kernels": {"low": 25, "high": 400}, "train.batch_size": [64, 128]}
    drive(url, tmp_path, method="kernels", space=space, trials=3)
    runs = [read_json(path) or {} for path in sorted(tmp_path.glob("tunings/cheap/trials/*/run.json"))]
    assert "readout.kernels" not in runs[0]["values"]  # the default, which its constructor knows
    for run in runs[1:]:
        assert run["params"]["readout.kernels"] == str(run["values"]["readout.kernels"])
    state = json.loads(zlib.decompress(base64.b64decode(tuning_view(runs, "").removeprefix("deflate;"))))
    assert {"params.`readout.kernels`", "params.`train.batch_size`"} <= set(state["selectedColumns"])
