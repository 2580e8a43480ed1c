"""From settings to studies: one per (dataset, method, d, fold), everything checked before the first trial."""

from pathlib import Path
from typing import Any

from permlab.datasets.folds import read_folds
from permlab.datasets.manifest import Manifest, chosen_targets
from permlab.datasets.randomness import derive_seed
from permlab.platform.errors import ConfigError
from permlab.platform.settings.run import RESULT_VERSION, DataSettings, RunSettings, key_fields
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.sweep.plan import manifest_of
from permlab.platform.tuning.choice import Choice, code_of
from permlab.platform.tuning.default_spaces import default_space
from permlab.platform.tuning.driver import Tuned
from permlab.platform.tuning.lease import Lease
from permlab.platform.tuning.settings import TuneSettings
from permlab.platform.tuning.space import Space, check_options, defaults, parse_space
from permlab.platform.tuning.study import Study, open_storage
from permlab.tasks.metrics import BY_KIND, Metric, higher_is_better, kind_of, metric_label, metrics_of

_TRIALS = 41  # entropy of the trials' seeds, which differ from those of the sweep that follows


def storage_url(settings: SweepSettings, tune: TuneSettings) -> str:
    return tune.storage or f"sqlite:///{tuning_folder(settings) / 'study.db'}"


def tuning_folder(settings: SweepSettings) -> Path:
    return Path(settings.runs).resolve() / "tunings" / settings.name


def metric_of(tune: TuneSettings, cell: RunSettings, manifest: Manifest) -> str:
    """The metric that the study optimises; its objective says which way is better."""
    known = _metrics(cell, manifest)
    metric = tune.metric or cell.train.monitor or next(iter(known))
    if metric not in known:
        raise ConfigError(f"tune.metric={metric}: {manifest.name} is measured by {', '.join(known)}")
    return metric


def _metrics(cell: RunSettings, manifest: Manifest) -> dict[str, Metric]:
    """What the objective of these trials measures, the headline first."""
    targets = chosen_targets(manifest, cell.data.target)
    objective = cell.objective
    if not objective.metrics and objective.kind in ("auto", *BY_KIND):
        kind = kind_of(manifest.task, targets, manifest.classes) if objective.kind == "auto" else objective.kind
        return metrics_of(kind, targets)
    from permlab.platform.run.model import DataFacts, build_objective  # imports torch, which is slow

    return build_objective(cell, DataFacts.of(manifest, targets)).metrics


def check_tuning(settings: SweepSettings, tune: TuneSettings) -> dict[str, tuple[RunSettings, Space, str]]:
    """By study name: the settings of its trials, the search space, the metric. No database is touched."""
    checked = {}
    for cell in settings.model_copy(update={"seed": settings.seed[:1]}).cells():
        manifest = manifest_of(cell.dataset)
        space = parse_space(tune.space or default_space(cell.method), cell.method)
        if not space:
            raise ConfigError(f"tune.space names nothing to search for {cell.method}")
        check_options(cell, space, manifest.max_nodes)
        trial = cell.model_copy(update={"data": _trial_data(cell.data, tune)})
        fold = "" if cell.data.fold is None else f"/f{cell.data.fold}"
        name = f"{settings.name}/{cell.dataset}/{cell.method}/d{cell.d}{fold}"
        checked[name] = (trial, space, metric_of(tune, cell, manifest))
    return checked


def _trial_data(data: DataSettings, tune: TuneSettings) -> DataSettings:
    """With a validation part; no trial measures the holdout."""
    cut: dict[str, Any] = {}
    if data.train_only:
        raise ConfigError("tuning measures a validation part: leave out data.train_only")
    if data.splits is None:
        cut = {"validation": tune.validation, "split_seed": data.split_seed or 0}
    elif not data.validated:
        raise ConfigError(f"tuning on data.splits={data.splits} needs a validation part: set data.validation")
    return data.model_copy(update=cut | {"test": False})


def _seeds(tune: TuneSettings, data: DataSettings) -> list[int]:
    """Of a trial; with a file of folds, they take its model-selection parts in turn."""
    seeds = [derive_seed(tune.seed, _TRIALS, i) % 2**31 for i in range(tune.seeds)]
    parts = len(read_folds(data.splits_file)[data.fold or 0].parts) if data.splits_file else 1
    return [seed - seed % parts + i % parts for i, seed in enumerate(seeds)]


def open_studies(settings: SweepSettings, tune: TuneSettings, lease: Lease) -> list[Tuned]:
    storage = open_storage(storage_url(settings, tune), lease)
    studies = []
    for name, (trial, space, metric) in check_tuning(settings, tune).items():
        manifest, seeds = manifest_of(trial.dataset), _seeds(tune, trial.data)
        study = Study(
            name=name,
            storage=storage,
            lease=lease,
            space=space,
            defaults=defaults(trial, space),
            measure=f"validation {metric_label(metric)}",
            maximise=higher_is_better(metric),
            tune=tune,
            epochs=trial.train.epochs,
            every=trial.train.eval_every,
            design=_design(trial, space, tune, metric, manifest),
        )
        dataset = {name: getattr(manifest, name) for name in ("name", "digest", "graphs", "holdout")}
        studies.append(Tuned(study, trial, seeds, metric, dataset))
    return studies


def _design(trial: RunSettings, space: Space, tune: TuneSettings, metric: str, manifest: Manifest) -> dict[str, Any]:
    """Everything that a study's numbers depend on."""
    settings = key_fields(trial)
    search = {f"tune.{name}": getattr(tune, name) for name in ("sampler", "pruner", "seed", "seeds")}
    search |= {"method": settings["method"]} if settings["method"] != trial.method else {}  # a plug-in, by its digest
    searched = {field: parameter.document for field, parameter in space.items()}
    return (
        {"result version": RESULT_VERSION, "digest": manifest.digest, "tune.metric": metric, "tune.space": searched}
        | search
        | by_dotted_name(settings)
    )


def by_dotted_name(groups: dict[str, Any]) -> dict[str, Any]:
    """The settings in groups, as group.name."""
    return {
        f"{group}.{name}": value
        for group, part in groups.items()
        if isinstance(part, dict)
        for name, value in part.items()
    }


def choose(tuned: Tuned) -> Choice | None:
    """The best finished trial; the default settings win a tie. None if no trial was completed."""
    rows = [row for row in tuned.study.rows() if row.value is not None]
    if not rows:
        return None
    sign = -1 if tuned.study.maximise else 1
    best = min(rows, key=lambda row: (sign * (row.value or 0.0), row.number))
    settings = tuned.settings
    default = next((row.value for row in rows if row.number == 0), None)
    return Choice(
        study=tuned.study.name,
        trial=best.number,
        dataset=settings.dataset,
        digest=tuned.dataset["digest"],
        method=settings.method,
        d=settings.d,
        fold=settings.data.fold,
        held_out=settings.held_out,
        split_seed=settings.data.split_seed or 0,
        holdout=tuned.dataset["holdout"] if settings.data.holdout is None else settings.data.holdout,
        metric=tuned.metric,
        value=best.value or 0.0,
        default=default,
        settings=best.values,
        code=code_of(settings),
    )


def summary(tuned: Tuned) -> dict[str, Any]:
    """A study as a JSON document."""
    rows = tuned.study.rows()
    full = tuned.study.steps
    ended = [row for row in rows if row.state in ("COMPLETE", "PRUNED")]
    spent = sum(row.epochs for row in ended)
    return {
        "study": tuned.study.name,
        "dataset": tuned.settings.dataset,
        "method": tuned.settings.method,
        "d": tuned.settings.d,
        "fold": tuned.settings.data.fold,
        "metric": tuned.metric,
        "maximise": tuned.study.maximise,
        "seeds": len(tuned.seeds),
        "steps": full,
        "finished": len(ended),
        "pruned": sum(row.state == "PRUNED" for row in ended),
        "epochs": spent,
        "epochs_saved": 1 - spent / (full * len(ended)) if ended else 0.0,
        "space": {field: parameter.document for field, parameter in tuned.study.space.items()},
        "importances": tuned.study.importances(),
        "trials": [vars(row) for row in rows],
    }
