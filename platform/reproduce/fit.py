"""The study: a trial is the whole grid with one recipe, and its value the distance to the paper's training columns."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from permlab.platform.errors import ConfigError
from permlab.platform.reproduce.distance import check_cell
from permlab.platform.reproduce.space import DEFAULT, defaults, joint_space, with_values
from permlab.platform.reproduce.trial import FitJob
from permlab.platform.settings.run import RESULT_VERSION, RunSettings, key_fields
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.sweep.plan import expected_seconds, manifest_of
from permlab.platform.tuning.driver import Tuned
from permlab.platform.tuning.lease import Lease
from permlab.platform.tuning.prepare import by_dotted_name, storage_url
from permlab.platform.tuning.settings import TuneSettings
from permlab.platform.tuning.space import Space
from permlab.platform.tuning.study import Study, open_storage

MEASURE = "distance to the paper's training columns"
OTHER = {  # settings of a tuning that this search does not have
    "epochs": "give tune.trials or tune.seconds",
    "metric": "the distance to the paper's training columns counts",
    "seeds": "the seeds of a trial are seed=[…]",
    "validation": "the training graphs alone are measured",
}


@dataclass
class Fitted(Tuned):
    """A study over the grid `sweep`; `settings` are those of one of its cells."""

    sweep: SweepSettings = field(default_factory=SweepSettings)

    @property
    def label(self) -> str:
        return "recipe"

    @property
    def facts(self) -> dict[str, str]:
        method, d = (", ".join(map(str, axis)) for axis in (self.sweep.method, self.sweep.d))
        return {"dataset": self.settings.dataset, "method": method, "d": d}

    def settings_with(self, values: dict[str, Any]) -> SweepSettings:
        return with_values(self.sweep, values)

    def job(self, number: int, settings: SweepSettings, runs: Path, folder: str) -> FitJob:
        return FitJob(
            name=f"{self.study.name} trial {number}", cells=trial_cells(settings), runs=str(runs), folder=folder
        )


def trial_cells(sweep: SweepSettings) -> list[RunSettings]:
    """The grid, the cheapest cells first, so that pruning saves the others. The holdout is not read, and only the end
    of training is measured.
    """
    manifest = manifest_of(sweep.dataset[0])
    only = {
        "data": sweep.data.model_copy(update={"train_only": True}),
        "train": sweep.train.model_copy(update={"eval_every": sweep.train.epochs}),
    }
    return sorted(sweep.model_copy(update=only).cells(), key=lambda cell: expected_seconds(cell, manifest, {}))


def check_fit(sweep: SweepSettings, tune: TuneSettings) -> Space:
    """Refuse what the paper does not have, or what no search can use; no database is touched. The data set is built."""
    if len(sweep.dataset) > 1:
        raise ConfigError("a recipe is fitted to one data set at a time; give one dataset")
    for cell in sweep.cells():
        check_cell(cell.dataset, cell.method, cell.d)
    for name, why in OTHER.items():
        if getattr(tune, name) != TuneSettings.model_fields[name].default:
            raise ConfigError(f"tune.{name} does not go with reproduce: {why}")
    if tune.pruner == "wilcoxon":
        raise ConfigError("tune.pruner=wilcoxon compares seeds; choose median, hyperband or none")
    if sweep.data.validated or sweep.data.has_folds:
        raise ConfigError(
            "the paper trains on all graphs that it does not hold out: leave out data.validation, .splits"
        )
    return joint_space(sweep, tune.space or DEFAULT, manifest_of(sweep.dataset[0]).max_nodes)


def open_fit(sweep: SweepSettings, tune: TuneSettings, lease: Lease) -> list[Tuned]:
    space, cells = check_fit(sweep, tune), trial_cells(sweep)
    manifest = manifest_of(sweep.dataset[0])
    design = {"result version": RESULT_VERSION, "digest": manifest.digest}
    design |= {name: getattr(sweep, name) for name in ("method", "d", "seed")}
    design |= {f"tune.{name}": getattr(tune, name) for name in ("sampler", "pruner", "seed")}
    design |= {"tune.space": {name: parameter.document for name, parameter in space.items()}}
    design |= by_dotted_name(key_fields(cells[0]))
    study = Study(
        name=f"{sweep.name}/{sweep.dataset[0]}",
        storage=open_storage(storage_url(sweep, tune), lease),
        lease=lease,
        space=space,
        defaults=defaults(sweep, space),
        measure=MEASURE,
        maximise=False,
        tune=tune.model_copy(update={"seeds": 1}),
        epochs=len(cells),  # a step is a cell
        every=1,
        design=design,
    )
    dataset = {name: getattr(manifest, name) for name in ("name", "digest", "graphs", "holdout")}
    return [Fitted(study, cells[0], sweep.seed, "distance", dataset, sweep=sweep)]
