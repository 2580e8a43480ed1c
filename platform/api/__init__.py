"""PermLab from Python: permutation-invariant graph readouts, trained, compared, and certified.

>>> import permlab
>>> result = permlab.train("quick", method="sort", train={"epochs": 3})
>>> sweep = permlab.sweep("quick", name="first", method=["sum", "sort"], seed=[0, 1])
>>> permlab.read("first").frame()

Settings are those of the command line: recipes and YAML files as positional words, single settings as keywords
(`d=10`, `train={"epochs": 3}`, `**{"train.epochs": 3}`), or a settings object. Progress bars are shown in a terminal,
and in a notebook that has ipywidgets; notes go to the logger `permlab`. Errors are raised.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if Path(__file__).parent.name == "api":  # an editable install: the other packages are not next to this file
    __path__.append(str(Path(__file__).parents[2]))

from permlab.platform.errors import ConfigError, RunError, RunStopped

if TYPE_CHECKING:  # keeps `import permlab` quick: each function imports what it needs
    from collections.abc import Iterable

    from pydantic import BaseModel
    from pytorch_lightning import Callback

    from permlab.platform.results.run import Result
    from permlab.platform.results.sweep import Sweep
    from permlab.platform.results.tuning import Tuning
    from permlab.readouts.theory.certificate import Certificate

    Word = str | Path | BaseModel

__all__ = ["ConfigError", "RunError", "RunStopped", "certify", "read", "report", "sweep", "train", "tune"]


def train(*words: "Word", fresh: bool = False, callbacks: "Iterable[Callback]" = (), **settings: Any) -> "Result":
    """Train one cell, or return its stored result; `fresh` runs it again. `callbacks` are Lightning's.

    >>> permlab.train(dataset="proteins_full", method="ordering", d=10).metrics["holdout"]["auc"]
    """
    from permlab.platform.display.console import notes_logged
    from permlab.platform.results.run import result_of
    from permlab.platform.run.train import train as run_train
    from permlab.platform.settings.run import RunSettings
    from permlab.platform.settings.words import read_settings

    run_settings = read_settings(RunSettings, words, settings)
    with notes_logged():
        return result_of(run_settings, run_train(run_settings, fresh, callbacks))


def sweep(*words: "Word", address: str | None = None, **settings: Any) -> "Sweep":
    """Run every combination of dataset × method × d × seed on Ray; finished cells are not run again.

    `address` is that of a Ray cluster. Raises RunError if cells failed; `read` returns the finished ones.

    >>> permlab.sweep("paper-proteins", method=["sum", "sort"], seed=range(5)).frame()
    """
    from permlab.platform.display.console import notes_logged
    from permlab.platform.settings.sweep import SweepSettings
    from permlab.platform.settings.words import read_settings
    from permlab.platform.sweep.drive import run_sweeps

    sweep_settings = read_settings(SweepSettings, words, settings)
    with notes_logged():
        for driven in run_sweeps(sweep_settings, address):
            driven.ended.check()
    return read(sweep_settings.name, Path(sweep_settings.runs))


def tune(*words: "Word", address: str | None = None, **settings: Any) -> "Tuning":
    """Search for good settings of every (dataset, method, d), on training data alone.

    >>> permlab.tune("quick", name="first", tune={"trials": 10}).best[0].settings
    """
    from permlab.platform.display.console import notes_logged
    from permlab.platform.results.tuning import read_tuning
    from permlab.platform.settings.sweep import TuningSettings
    from permlab.platform.settings.words import read_settings
    from permlab.platform.tuning.tune import tune as run_tune

    tuning_settings = read_settings(TuningSettings, words, settings)
    with notes_logged():
        run_tune(tuning_settings, address).check()
    return read_tuning(tuning_settings.name, Path(tuning_settings.runs))


def read(name: str, runs: str | Path = "runs") -> "Sweep":
    """A stored sweep: from the runs folder, or from MLflow if it is not all there."""
    from permlab.platform.display.console import notes_logged
    from permlab.platform.report.read import read_stored
    from permlab.platform.results.sweep import Sweep

    with notes_logged():
        stored = read_stored(name, Path(runs))
    return Sweep(name, stored.place, stored, Path(runs))


def report(name: str, folder: str | Path | None = None, runs: str | Path = "runs") -> Path:
    """Write the report of a sweep, by default to runs/sweeps/NAME/report; returns its page."""
    return read(name, runs).report(folder)


def certify(method: str, n: int, d: int, **options: Any) -> "Certificate":
    """Search n × d matrices for what a readout keeps and loses.

    Options are those of the readout, and key, samples, steps, seed, budget, seconds as in `permlab certify`.

    >>> permlab.certify("ordering", n=3, d=2, key="spark").universality.universal
    """
    from permlab.platform.run.certify import certify_method

    return certify_method(method, n, d, **options)[1]
