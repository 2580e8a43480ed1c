"""From a grid to the recipe that explains the paper's training columns best, and one look at the holdout columns."""

import csv
from pathlib import Path
from typing import Any

from permlab.platform.display.build_bar import build_if_missing
from permlab.platform.display.console import doing, note
from permlab.platform.errors import Ended
from permlab.platform.files.json_files import read_json, write_json
from permlab.platform.report.results import paper_numbers
from permlab.platform.report.scorecard import repeated
from permlab.platform.reproduce.distance import distance, misses
from permlab.platform.reproduce.recipe import write_recipe
from permlab.platform.reproduce.trial import CELLS, run_fit_trial
from permlab.platform.run.stored_result import FAILED, FINISHED, STOPPED
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.sweep.drive import Driven, run_sweep
from permlab.platform.sweep.folder import close_folder
from permlab.platform.tuning.choice import STUDIES, best_of
from permlab.platform.tuning.settings import TuneSettings
from permlab.platform.tuning.tune import run_studies

RECIPE, TRIALS, OUTCOME = "recipe.yaml", "trials.csv", "outcome.json"
DEFAULT_SWEEP, FITTED_SWEEP = "-default", "-fitted"  # added to the name of the search


def reproduce(settings: SweepSettings, address: str | None, look: bool = True, runner: Any = run_fit_trial) -> Ended:
    """Search, write the best recipe, then with `look` train the default and the best recipe once more on the same
    seeds, measuring the holdout for the first time.
    """
    with doing(f"{settings.name}: opening the study", in_log=False):
        from permlab.platform.reproduce.fit import check_fit, open_fit

    build_if_missing(settings.dataset[0])
    options = settings.tune or TuneSettings()
    check_fit(settings, options)
    ended = run_studies(settings, options, address, runner, open_fit, _end)
    if ended.code or not look:
        return ended
    return _look(settings, options, address)


def search_folder(settings: SweepSettings) -> Path:
    return Path(settings.runs) / "tunings" / settings.name


def _end(studies: list[Any], folder: Path, ended: Ended) -> Ended:
    """Write the study as evidence, and its best recipe."""
    from permlab.platform.tuning.prepare import summary

    (fitted,) = studies
    study = summary(fitted) | {"method": fitted.facts["method"], "d": fitted.facts["d"], "metric": "distance"}
    for trial in study["trials"]:
        trial["by_method"] = _by_method(folder, fitted, trial["number"])
    write_json(folder / STUDIES, {"studies": [study]})
    _write_trials(folder / TRIALS, study)
    best = best_of(study)
    if best is None and not ended.code:
        ended = Ended(1, "every trial was pruned or failed; give it a larger budget")
    if best:
        default = next((row["value"] for row in study["trials"] if row["number"] == 0), None)
        write_recipe(
            folder / RECIPE,
            fitted.settings_with(best["values"]),
            list(fitted.study.space),
            [
                f"Fitted to the paper's training columns: trial {best['number']} of {study['finished']} of the search "
                f"{fitted.sweep.name}.",
                f"Distance {best['value']:.3f}; the default recipe's {'–' if default is None else f'{default:.3f}'}. "
                f"Grid: {fitted.facts['method']}; d = {fitted.facts['d']}.",
            ],
        )
    close_folder(folder, {0: FINISHED, 1: FAILED}.get(ended.code, STOPPED))
    return ended


def _by_method(folder: Path, fitted: Any, number: int) -> dict[str, float]:
    """The distance over the cells of each method that the trial has run."""
    paths = sorted(folder.glob(f"trials/*-{fitted.label}-t{number}/{CELLS}"))
    rows = [row for path in paths for row in (read_json(path) or {"cells": []})["cells"]]
    methods = [method for method in fitted.sweep.method if any(row["method"] == method for row in rows)]
    return {method: distance(row["missed"] for row in rows if row["method"] == method) for method in methods}


def _write_trials(path: Path, study: dict[str, Any]) -> None:
    """One row per trial: how it ended, its distance, that of every method, and the recipe."""
    methods, fields = study["method"].split(", "), list(study["space"])
    header = ["number", "state", "distance", "cells", "seconds"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*header, *(f"distance/{method}" for method in methods), *fields])
        for trial in study["trials"]:
            facts = [trial["number"], trial["state"], trial["value"], trial["epochs"], round(trial["seconds"], 1)]
            own = [trial["by_method"].get(method) for method in methods]
            writer.writerow([*facts, *own, *(trial["values"].get(field) for field in fields)])


def _look(settings: SweepSettings, options: TuneSettings, address: str | None) -> Ended:
    """The default and the best recipe, with the holdout."""
    from permlab.platform.reproduce.space import with_values

    folder = search_folder(settings)
    study = (read_json(folder / STUDIES) or {})["studies"][0]
    recipes = {FITTED_SWEEP: (best_of(study) or {})["values"]} | ({DEFAULT_SWEEP: {}} if options.baseline else {})
    outcome: dict[str, Any] = {}
    for ending, values in recipes.items():
        name = settings.name + ending
        sweep = with_values(settings, values).model_dump() | {"name": name, "tune": None}
        note(f"\n{name}: the {ending[1:]} recipe, with the holdout")
        driven = run_sweep(SweepSettings.model_validate(sweep), address)
        if driven.ended.code:
            return driven.ended
        outcome[ending[1:]] = distances(driven)
    write_json(folder / OUTCOME, outcome)
    return Ended()


def distances(driven: Driven) -> dict[str, dict[str, float]]:
    """By split the distance over all cells, and that of every method. Permuted holdouts of invariant methods repeat the
    holdout, so they do not count.
    """
    found: dict[str, dict[str, float]] = {}
    counted = {(kind[2], kind[3]) for kind in paper_numbers() if not repeated(kind)}
    for split in ("train", "holdout", "holdout_perm"):
        missed = [
            (cell.settings.method, misses(cell.settings.dataset, cell.settings.method, cell.settings.d, split, part))
            for cell in driven.cells
            if cell.result and (part := cell.result["metrics"].get(split)) and (cell.settings.method, split) in counted
        ]
        if missed:
            found[split] = {"all": distance(miss for _, miss in missed)}
            for method in dict.fromkeys(method for method, _ in missed):
                found[split][method] = distance(miss for name, miss in missed if name == method)
    return found
