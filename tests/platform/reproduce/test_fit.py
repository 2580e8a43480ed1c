"""The search, in this process: real trials, and Optuna's own database."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from permlab.platform.errors import ConfigError, Ended
from permlab.platform.files.json_files import read_json
from permlab.platform.reproduce import reproduce as module
from permlab.platform.reproduce.fit import check_fit, open_fit
from permlab.platform.reproduce.reproduce import RECIPE, TRIALS, search_folder
from permlab.platform.reproduce.settings import ReproduceSettings
from permlab.platform.reproduce.trial import run_fit_trial
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import read_settings
from permlab.platform.tuning.choice import STUDIES, best_of
from permlab.platform.tuning.driver import Driver
from permlab.platform.tuning.lease import open_lease
from permlab.platform.tuning.prepare import storage_url


class Inline:
    """Runs a job when it is started."""

    room = 1

    def __init__(self) -> None:
        self.done: list[tuple[Any, dict[str, Any]]] = []

    def __len__(self) -> int:
        return len(self.done)

    def start(self, label: Any, runner: Callable[[Any], dict[str, Any]], job: Any, folder: str) -> None:
        self.done.append((label, {"status": "FINISHED", "result": runner(job)}))

    def ended(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        while self.done:
            yield self.done.pop()

    def cancel(self) -> None:
        pass


def search(settings: ReproduceSettings, end: bool = True) -> dict[str, Any]:
    """The study after its budget."""
    folder = search_folder(settings)
    folder.mkdir(parents=True, exist_ok=True)
    lease = open_lease(storage_url(settings, settings.tune))
    try:
        studies = open_fit(settings, settings.tune, lease)
        Driver(studies, Inline(), run_fit_trial, settings.name, Path(settings.runs), 0, 1).run(
            lambda _: None, lambda: 0
        )
        module._end(studies, folder, Ended())
    finally:
        lease.close()
    return (read_json(folder / STUDIES) or {})["studies"][0]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permlab.platform.tuning.trial_task.PATIENCE", 0.0)  # trials run in the driver's own thread


def test_the_best_recipe_comes_out_and_can_be_run(settings: ReproduceSettings) -> None:
    study = search(settings)
    folder, best = search_folder(settings), best_of(study)
    assert best and [row["state"] for row in study["trials"]] == ["COMPLETE"] * 3
    assert best["value"] == min(row["value"] for row in study["trials"])
    for row in study["trials"]:
        assert row["value"] ** 2 == pytest.approx(sum(part**2 for part in row["by_method"].values()) / 2)
    with (folder / TRIALS).open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["distance"]) for row in rows] == [row["value"] for row in study["trials"]]
    assert rows[0]["train.optimizer"] == "adam" and rows[0]["set2set.readout.steps"] == "3"

    again = read_settings(SweepSettings, [folder / RECIPE, "method=[sum,set2set]"])
    single = read_settings(RunSettings, [folder / RECIPE, "method=set2set"])
    assert single.readout == {"steps": best["values"]["set2set.readout.steps"]}
    assert {cell.method: cell.readout for cell in again.cells()} == {"sum": {}, "set2set": single.readout}
    assert single.train.learning_rate == best["values"]["train.learning_rate"]
    assert single.train.epochs == 2 and single.model.norm == best["values"]["model.norm"]
    assert set(yaml.safe_load((folder / RECIPE).read_text())) == {"dataset", "train", "model", "readout"}


def test_a_larger_budget_continues_and_another_grid_is_refused(settings: ReproduceSettings) -> None:
    first = search(settings)
    tune = settings.tune.model_copy(update={"trials": 4})
    assert search(settings.model_copy(update={"tune": tune}))["trials"][:3] == first["trials"]
    with pytest.raises(ConfigError, match="was started with d="):
        search(settings.model_copy(update={"d": [10]}))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["dataset=[qm9,proteins_full]"], "one data set at a time"),
        (["method=mean"], "no method mean"),
        (["tune.epochs=7"], "tune.epochs does not go with reproduce: give tune.trials"),
        (["tune.metric=mae"], "tune.metric does not go"),
        (["tune.seeds=5", "tune.pruner=wilcoxon"], "tune.seeds does not go"),
        (["data.validation=0.1"], "leave out data.validation"),
    ],
)
def test_what_does_not_go_with_it(settings: ReproduceSettings, words: list[str], says: str) -> None:
    wrong = read_settings(ReproduceSettings, [settings, *words])
    with pytest.raises(ConfigError, match=says):
        check_fit(wrong, wrong.tune)
