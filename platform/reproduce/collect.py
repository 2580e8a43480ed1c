"""What sweeps measured and cost, one row per cell: all that the page of the reproduction rests on."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from permlab.platform.errors import ConfigError
from permlab.platform.files.json_files import load_json, read_json
from permlab.platform.report.on_disk import read_on_disk
from permlab.platform.report.recipe import OPEN, UNNAMED
from permlab.platform.report.stored import SPLITS, StoredSweep
from permlab.platform.report.surroundings import numerics_told, surroundings
from permlab.platform.reproduce.reproduce import OUTCOME
from permlab.platform.run.histories import whole_history
from permlab.platform.settings.run import NOT_IN_KEY, RunSettings
from permlab.platform.settings.words import describe
from permlab.platform.sweep.folder import commands_of, last_sign
from permlab.platform.tuning.choice import STUDIES, best_of
from permlab.tasks.metrics import headline_of

OURS = ("default", "fitted")  # the recipes on the page
FACTS = ["dataset", "method", "d", "seed", "status"]
CELL = ["recipe", "dataset", "d", "method", "seed"]
SEARCHED = (*OPEN, *UNNAMED, "model.last_activation", "readout")  # what makes a recipe another one than the default
_FREE = {"method", "d", "seed"} | {name for name, whole in NOT_IN_KEY.items() if whole is True}
_FREE |= {f"{group}.{name}" for group, names in NOT_IN_KEY.items() if isinstance(names, set) for name in names}
DEFAULTS = {name: str(value) for name, value, _ in describe(RunSettings) if name not in _FREE}


def collect(runs: Path, sweeps: Mapping[str, Iterable[str]], searches: Iterable[str]) -> tuple[pd.DataFrame, Any]:
    """The planned cells of the sweeps of each recipe, and facts of sweeps and searches."""
    stored = [(recipe, _stored(runs, name)) for recipe in sweeps for name in dict.fromkeys(sweeps[recipe])]
    facts = {
        "sweeps": [_sweep_facts(runs, recipe, sweep) for recipe, sweep in stored],
        "searches": [_search_facts(runs, name) for name in searches],
    }
    tables = [
        pd.DataFrame(_cells(runs, sweep)).assign(recipe=recipe, sweep=sweep.name, started=told["started"])
        for (recipe, sweep), told in zip(stored, facts["sweeps"], strict=True)
    ]
    return join_cells(tables) if tables else pd.DataFrame(), facts


def join_cells(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """One row per cell, of several the one that is finished or got further, of equals the first. `again`: by how much
    at most another run of the same cell differs from it. Cells of one recipe whose means would mix settings, data or
    versions are refused.
    """
    table = pd.concat(tables, ignore_index=True)
    table = table.iloc[np.lexsort([-table["epoch"], table["status"] != "FINISHED"])]
    table = table.assign(again=_again(table)).drop_duplicates(["recipe", "key"]).sort_values(CELL)
    _check(table)
    return table.reset_index(drop=True)


def _again(table: pd.DataFrame) -> pd.Series:
    """The largest difference of a metric between the first run of a cell and the others; NaN if there are none."""
    metrics = [name for name in table if name.partition("/")[0] in SPLITS and not name.endswith("/loss")]
    finished, cell = table[table["status"] == "FINISHED"], [table["recipe"], table["key"]]
    first = finished.groupby(["recipe", "key"])[["seconds", *metrics]].transform("first")
    apart = (finished[metrics] - first[metrics]).abs().max(axis=1)
    known = table["again"].combine(apart[finished["seconds"] != first["seconds"]].reindex(table.index), np.fmax)
    largest: pd.Series = known.groupby(cell).transform("max")
    return largest


def _check(cells: pd.DataFrame) -> None:
    """Refuse cells of one recipe and data set of several versions, data, or settings; readouts have options of their
    own.
    """
    for (recipe, dataset), part in cells[cells["settings"] != ""].groupby(["recipe", "dataset"]):
        others = {
            name: DEFAULTS.get(name, "not set") for text in part["settings"].unique() for name in json.loads(text)
        }
        sweep_with: dict[str, dict[str, str]] = defaultdict(dict)  # by setting and value, one that has it
        for row in part.drop_duplicates(["method", "version", "digest", "settings", "sweep"]).to_dict("records"):
            own = json.loads(row["settings"])
            searched = [f"{name}={own[name]}" for name in SEARCHED if name in own]
            if recipe == "default" and searched:
                raise ConfigError(
                    f"{row['sweep']} has {searched[0]}, so its recipe is not the default one; name it with --fitted"
                )
            facts = others | own | {"result version": row["version"], "digest of the data": row["digest"]}
            facts[f"readout of {row['method']}"] = facts.pop("readout", "{}")
            for name, value in facts.items():
                sweep_with[name].setdefault(str(value), row["sweep"])
        for name, values in sweep_with.items():
            if len(values) > 1:
                told = " and ".join(f"{value} (sweep {sweep})" for value, sweep in values.items())
                raise ConfigError(f"{recipe}: {dataset} has {name} = {told}; add sweeps of one recipe only")
    twice = cells[cells.duplicated(CELL, keep=False)]
    if len(twice):
        place, names = ", ".join(str(twice.iloc[0][name]) for name in CELL), " and ".join(twice["sweep"].iloc[:2])
        raise ConfigError(f"{place} appears twice with different settings or result versions, in {names}")


def _cells(runs: Path, sweep: StoredSweep) -> list[dict[str, Any]]:
    rows, evaluations = [], dict(list(sweep.histories.groupby("key")))
    for cell in sweep.cells.to_dict("records"):
        place, finished = runs / "cells" / str(cell["key"]), cell["status"] == "FINISHED"
        run = read_json(place / "run.json") or {}
        params = run.get("params", sweep.params)
        history = evaluations.get(cell["key"]) if finished else pd.DataFrame(whole_history(place))
        told = numerics_told(cell["numerics"]) if cell["numerics"] else {}
        row = {"key": cell["key"]} | {fact: cell[fact] for fact in FACTS}
        row |= {
            "epoch": 0 if history is None or history.empty else int(history["epoch"].max()),
            "epochs": int(params["train.epochs"]),
            "seconds": cell.get("cost/seconds", np.nan),
            "threads": json.loads(cell["numerics"])[-1]["threads"] if told else 1,
            "commit": cell["git.commit"],
            "version": run.get("version", 0),
            "digest": run.get("dataset", {}).get("digest", ""),
            "settings": json.dumps(_not_default(run["params"])) if run else "",
            "oscillation": oscillation_of(history) if finished and history is not None else np.nan,
            "again": np.nan,
            "error": cell["error"].partition(";")[0].replace(str(runs), "runs"),  # what follows are hints, and places
            "graphs/holdout": cell.get("graphs/holdout", np.nan),
        }
        row |= {name: told.get(name, "") for name in ("engine", "cpu", "code")}
        names = [name for name in cell if str(name).partition("/")[0] in SPLITS and "running" not in str(name)]
        rows.append(row | {str(name): cell[name] for name in names})
    return rows


def _not_default(params: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in params.items() if name not in _FREE and DEFAULTS.get(name) != text}


def _stored(runs: Path, name: str) -> StoredSweep:
    sweep = read_on_disk(name, runs)
    if sweep is None:
        known = sorted(path.parent.name for path in runs.glob("sweeps/*/plan.json"))
        raise ConfigError(f"there is no sweep {name!r} in {runs}; choose from: {', '.join(known) or 'none yet'}")
    return sweep


def oscillation_of(evaluations: pd.DataFrame) -> float:
    """√ mean of squares of the change from one evaluation to the next of the headline metric on the permuted holdout,
    over the second half of training; NaN if that was not measured.
    """
    measured = evaluations.dropna(axis=1, how="all")
    metrics = {name.partition("/")[2] for name in measured if name.startswith("holdout_perm/")}
    if not metrics:
        return np.nan
    values = measured[f"holdout_perm/{headline_of(metrics)}"].dropna()
    return float((values.iloc[len(values) // 2 :].diff() ** 2).mean() ** 0.5)


def _started(folder: Path) -> tuple[float, dict[str, Any]]:
    """When a sweep or a search was first started, which with its name identifies it; and its document."""
    document = load_json(folder / "sweep.json") or {}
    return next((command["started"] for command in commands_of(document)), document.get("started", 0.0)), document


def _sweep_facts(runs: Path, recipe: str, sweep: StoredSweep) -> dict[str, Any]:
    """Wall-clock: the sum over its commands, None if an older version has not kept them all."""
    started, document = _started(runs / "sweeps" / sweep.name)
    commands, starts = commands_of(document), document.get("starts", 0)
    folders = [runs / "cells" / key for key in sweep.cells["key"]]
    spans = [(one["ended"] or last_sign(folders, one["started"])) - one["started"] for one in commands]
    facts = {"recipe": recipe, "name": sweep.name, "started": started, "status": sweep.status, "starts": starts}
    facts |= {"wall_clock": sum(spans) if len(spans) == starts else None, "surroundings": surroundings(sweep)}
    return facts | {"planned": len(sweep.cells), "finished": len(sweep.finished)}


def _search_facts(runs: Path, name: str) -> dict[str, Any]:
    """The trials, what mattered, the distances."""
    found = {path.parent.name: read_json(path) or {} for path in sorted(runs.glob(f"tunings/*/{STUDIES}"))}
    of_recipes = {
        folder: document["studies"][0]
        for folder, document in found.items()
        if document.get("studies") and all("by_method" in trial for trial in document["studies"][0]["trials"])
    }
    if name not in of_recipes:
        known = ", ".join(of_recipes) or "none"
        raise ConfigError(f"there is no search {name!r} of `permlab reproduce` in {runs}; choose from: {known}")
    study, folder = of_recipes[name], runs / "tunings" / name
    best = best_of(study)
    kept = ("dataset", "method", "d", "finished", "pruned", "importances")
    numbers = [{key: row[key] for key in ("number", "value", "by_method", "values")} for row in study["trials"]]
    outcome = {key: value for key, value in (read_json(folder / OUTCOME) or {}).items() if key in OURS}
    facts: dict[str, Any] = {"name": name, "started": _started(folder)[0]} | {key: study[key] for key in kept}
    facts |= {"seconds": sum(row["seconds"] for row in study["trials"]), "outcome": outcome}
    return facts | {"best": best["number"] if best else None, "trials": numbers}
