"""Optuna: a study's ask and tell, as its driver sees them. The only file that knows Optuna.

What a trial tries is a function of the study's seed, the trial's number and the trials that finished before it. So a
study with one trial at a time comes out the same whenever it is run, in one go or killed and started again.
"""

import json
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner, WilcoxonPruner
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from permlab.datasets.randomness import derive_seed
from permlab.platform.errors import ConfigError, RunError
from permlab.platform.files.secrets import mask
from permlab.platform.tuning.lease import Lease
from permlab.platform.tuning.settings import TuneSettings
from permlab.platform.tuning.space import Parameter, Space

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
STARTUP = 5  # trials that are drawn at random, and that no pruner touches
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)


class PinnedSampler(BaseSampler):
    """Draws each value with its own sampler, seeded by (seed, trial, field); `gp` draws those of a trial together, as
    soon as there are enough trials to learn from. Trial 0 is the default settings.
    """

    def __init__(self, kind: str, seed: int, defaults: dict[str, Any]) -> None:
        self.kind, self.seed, self.defaults = kind, seed, defaults

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        together = self.kind == "gp" and trial.number > 0
        return self._gaussian(trial).infer_relative_search_space(study, trial) if together else {}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._gaussian(trial).sample_relative(study, trial, search_space) if search_space else {}

    def _gaussian(self, trial: FrozenTrial) -> GPSampler:
        return GPSampler(seed=derive_seed(self.seed, trial.number) % 2**32, n_startup_trials=STARTUP)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        if trial.number == 0:
            return self.defaults[param_name]
        seed = derive_seed(self.seed, trial.number, zlib.crc32(param_name.encode())) % 2**32
        sampler: BaseSampler = RandomSampler(seed)
        if self.kind == "tpe":
            sampler = TPESampler(seed=seed, n_startup_trials=STARTUP, multivariate=False, constant_liar=True)
        return sampler.sample_independent(study, trial, param_name, param_distribution)


def make_pruner(kind: str, epochs: int, every: int) -> BasePruner:
    """`epochs` of one seed, `every` so many of which it is evaluated."""
    if kind == "wilcoxon":
        return WilcoxonPruner()
    if kind == "median":
        return MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=epochs // 6)
    if kind == "hyperband":
        return HyperbandPruner(min_resource=max(every, epochs // 9), max_resource=epochs, reduction_factor=3)
    return NopPruner()


def open_storage(url: str, lease: Lease) -> optuna.storages.RDBStorage:
    options = {} if url.startswith("sqlite") else {"pool_pre_ping": True}
    try:
        with lease.mutex("tables"):
            return optuna.storages.RDBStorage(url, engine_kwargs=options)
    except (SQLAlchemyError, RuntimeError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise ConfigError(f"the studies' database {mask(url)} cannot be used: {reason}") from None


@contextmanager
def database_errors(url: str) -> Iterator[None]:
    """Turn a lost database connection into an error of one line."""
    try:
        yield
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise RunError(f"the studies' database {mask(url)} was lost: {reason}; the same command resumes") from None


@dataclass
class Asked:
    """A trial to run."""

    number: int
    values: dict[str, Any]


@dataclass
class Row:
    """A trial as it is stored."""

    number: int
    state: str
    value: float | None
    values: dict[str, Any]
    steps: dict[int, float]
    epochs: int
    seconds: float


@dataclass
class Study:
    """One (dataset, method, d). `design` is what must not change between two runs of a driver.

    A step is an epoch of the trials' first seed, or a whole seed if the pruner compares trials seed by seed: all trials
    have the same seeds.
    """

    name: str
    storage: optuna.storages.RDBStorage
    lease: Lease
    space: Space
    defaults: dict[str, Any]
    measure: str
    maximise: bool
    tune: TuneSettings
    epochs: int
    every: int
    design: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with self.lease.mutex(self.name):
            self.study = optuna.create_study(
                storage=self.storage,
                study_name=self.name,
                sampler=PinnedSampler(self.tune.sampler, self.tune.seed, self.defaults),
                pruner=make_pruner(self.tune.pruner, self.epochs, self.every),
                direction="maximize" if self.maximise else "minimize",
                load_if_exists=True,
            )
            if self.study.metric_names != [self.measure]:
                self.study.set_metric_names([self.measure])
            self._same_design()
        self.trials: dict[int, optuna.Trial] = {}  # under way here

    def _same_design(self) -> None:
        design = json.loads(json.dumps(self.design))
        stored = self.study.user_attrs
        before = stored.get("design", stored)  # older versions kept it in one attribute
        if not self.study.get_trials(deepcopy=False):  # new, or its driver died while it wrote the design
            for key, value in design.items():
                if before.get(key) != value or key not in before:
                    self.study.set_user_attr(key, value)
            return
        changed = [key for key in before | design if before.get(key) != design.get(key)]
        if changed:
            key = changed[0]
            raise ConfigError(
                f"study {self.name} was started with {key}={before.get(key, 'unknown')}, now it is {design.get(key)}; "
                "choose another name="
            )

    @property
    def steps(self) -> int:
        """Epochs of a whole trial, all seeds together."""
        return self.epochs * self.tune.seeds

    @property
    def by_seed(self) -> bool:
        return self.tune.pruner == "wilcoxon"

    def ask(self) -> Asked | None:
        """Take a trial: one that was left unfinished, or a new one; None while the budget is used up or reserved."""
        with self.lease.mutex(self.name):
            self._reclaim()
            if not self.wants_more():
                return None
            trial = self.study.ask()
            trial.set_user_attr("driver", self.lease.driver)
        tried = [p for p in self.space.values() if trial.number or p.field in self.defaults]
        values = {parameter.field: _suggest(trial, parameter) for parameter in tried}
        self.trials[trial.number] = trial
        return Asked(trial.number, values)

    def _reclaim(self) -> None:
        """Return the trials of dead drivers to the queue."""
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if not self.lease.alive(trial.user_attrs.get("driver")):
                with suppress(optuna.exceptions.UpdateFinishedTrialError):  # its driver ended it, then died
                    self.storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)

    def wants_more(self) -> bool:
        """Is there budget that neither finished nor running trials use?"""
        finished, running = self._look()
        if self.tune.trials is not None and len(finished) + running >= self.tune.trials:
            return False
        return not self._spent(finished)

    def _look(self) -> tuple[list[FrozenTrial], int]:
        """The finished trials, and how many run: in one query, as another driver's trial may end between two."""
        trials = self.study.get_trials(deepcopy=False, states=(*FINISHED, TrialState.RUNNING))
        finished = [trial for trial in trials if trial.state in FINISHED]
        return finished, len(trials) - len(finished)

    def _spent(self, finished: list[FrozenTrial]) -> bool:
        tune = self.tune
        epochs = sum(trial.user_attrs.get("epochs", 0) for trial in finished)
        seconds = sum(trial.user_attrs.get("seconds", 0.0) for trial in finished)
        return (
            (tune.trials is not None and len(finished) >= tune.trials)
            or (tune.epochs is not None and epochs >= tune.epochs)
            or (tune.seconds is not None and seconds >= tune.seconds)
        )

    @property
    def over(self) -> bool:
        """The budget is spent and nothing runs."""
        finished, running = self._look()
        return not running and self._spent(finished)

    @property
    def finished(self) -> int:
        return len(self.study.get_trials(deepcopy=False, states=FINISHED))

    def report(self, number: int, step: int, value: float) -> bool:
        """Store an intermediate value; should the trial be pruned? Steps stored before are not judged again."""
        trial = self.trials[number]
        stored = self.storage.get_trial(trial._trial_id).last_step
        if stored is None or step > stored:
            trial.report(value, step)
        elif step < stored:
            return False
        over = step >= self.tune.seeds if self.by_seed else step >= self.epochs and self.tune.seeds == 1
        return not over and bool(trial.should_prune())

    def complete(self, number: int, value: float, epochs: int, seconds: float) -> None:
        self._tell(number, value, TrialState.COMPLETE, epochs, seconds)

    def prune(self, number: int, epochs: int, seconds: float) -> None:
        self._tell(number, None, TrialState.PRUNED, epochs, seconds)

    def fail(self, number: int, error: str) -> None:
        self.trials[number].set_user_attr("error", error)
        self._tell(number, None, TrialState.FAIL, 0, 0.0)

    def _tell(self, number: int, value: float | None, state: TrialState, epochs: int, seconds: float) -> None:
        trial = self.trials.pop(number)
        if not self.storage.get_trial(trial._trial_id).state.is_finished():
            trial.set_user_attr("epochs", epochs)
            trial.set_user_attr("seconds", seconds)
        self.study.tell(trial, value, state, skip_if_finished=True)

    def release(self, number: int) -> None:
        """Return a stopped trial to the queue; the next `ask` resumes it."""
        trial = self.trials.pop(number)
        self.storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)

    def rows(self) -> list[Row]:
        return [
            Row(
                trial.number,
                trial.state.name,
                trial.value if trial.state == TrialState.COMPLETE else None,
                dict(trial.params),
                dict(trial.intermediate_values),
                trial.user_attrs.get("epochs", 0),
                trial.user_attrs.get("seconds", 0.0),
            )
            for trial in self.study.get_trials(deepcopy=False)
        ]

    def importances(self) -> dict[str, float]:
        """Share of each field in how good trials differ from the rest (PED-ANOVA); empty with too few trials."""
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        with warnings.catch_warnings(action="ignore"):  # it warns of too few trials; our callers say so themselves
            try:
                return get_param_importances(self.study, evaluator=PedAnovaImportanceEvaluator())
            except (ValueError, RuntimeError):
                return {}


def _suggest(trial: optuna.Trial, parameter: Parameter) -> Any:
    name, low, high, step = parameter.field, parameter.low, parameter.high, parameter.step
    if parameter.choices:
        return trial.suggest_categorical(name, parameter.choices)
    if parameter.whole:
        return trial.suggest_int(name, int(low), int(high), step=int(step or 1), log=parameter.log)
    return trial.suggest_float(name, low, high, step=step, log=parameter.log)
