"""What finished sweeps measured and cost, one row per cell: all that the page of the reproduction rests on."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from permlab.platform.errors import ConfigError
from permlab.platform.files.json_files import read_json
from permlab.platform.report.on_disk import read_on_disk
from permlab.platform.report.stored import SPLITS, StoredSweep
from permlab.platform.report.surroundings import surroundings
from permlab.platform.reproduce.reproduce import OUTCOME
from permlab.platform.run.histories import evaluated, whole_history
from permlab.platform.tuning.choice import STUDIES, best_of
from permlab.tasks.metrics import headline_of

RECIPES = ("default", "fitted")
FACTS = ["dataset", "method", "d", "seed", "status"]
CELL = ["recipe", "dataset", "d", "method", "seed"]


def collect_cells(runs: Path, sweeps: Mapping[str, Iterable[str]]) -> pd.DataFrame:
    """The planned cells of the sweeps of each recipe: key, recipe, FACTS, how far they got, cost, split/metric."""
    tables = [pd.DataFrame(_cells(runs, name)).assign(recipe=recipe) for recipe in sweeps for name in sweeps[recipe]]
    return join_cells(tables)


def join_cells(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """One row per cell: a finished one if there is one, of several the first. Cells of one recipe that differ in other
    settings, or in the version of PermLab, are refused: a mean over their seeds would mix them.
    """
    table = pd.concat(tables, ignore_index=True)
    table = table.sort_values("status", key=lambda status: status != "FINISHED", kind="stable")
    table = table.drop_duplicates(["recipe", "key"]).sort_values(CELL)
    twice = table[table.duplicated(CELL)]
    if len(twice):
        recipe, dataset, d, method, seed = (twice.iloc[0][name] for name in CELL)
        raise ConfigError(
            f"{recipe}: {dataset}, {method}, d = {d}, seed {seed} stands twice, with other settings or of another "
            "version; name sweeps of one recipe only"
        )
    return table.reset_index(drop=True)


def _cells(runs: Path, name: str) -> list[dict[str, Any]]:
    sweep, rows = _stored(runs, name), []
    for cell in sweep.cells.to_dict("records"):
        place = runs / "cells" / str(cell["key"])
        history, result = whole_history(place), read_json(place / "result.json") or {}
        params: Any = cell.get("params")
        params = params if isinstance(params, dict) else sweep.params
        measured = {
            column: value
            for column, value in cell.items()
            if str(column).partition("/")[0] in SPLITS and "running" not in str(column)
        }
        done = {"epoch": max((int(entry["epoch"]) for entry in history), default=0)}
        done |= {"epochs": int(params["train.epochs"]), "threads": int(params.get("threads", 1))}
        cost: dict[str, Any] = {
            "seconds": result.get("seconds"),
            "engine": (result.get("engine") or {}).get("name", ""),
        }
        finished = cell["status"] == "FINISHED"
        oscillation = {"oscillation": oscillation_of(evaluated(history))} if finished else {}
        rows.append({"key": cell["key"]} | {fact: cell[fact] for fact in FACTS} | done | cost | oscillation | measured)
    return rows


def _stored(runs: Path, name: str) -> StoredSweep:
    sweep = read_on_disk(name, runs)
    if sweep is None:
        known = sorted(path.parent.name for path in runs.glob("sweeps/*/plan.json"))
        raise ConfigError(f"there is no sweep {name!r} in {runs}; choose from: {', '.join(known) or 'none yet'}")
    return sweep


def oscillation_of(evaluations: list[dict[str, Any]]) -> float | None:
    """√ mean of squares of the change from one evaluation to the next of the headline metric on the permuted holdout,
    over the second half of training.
    """
    metrics = {name.partition("/")[2] for entry in evaluations for name in entry if name.startswith("holdout_perm/")}
    if not metrics:
        return None
    name = f"holdout_perm/{headline_of(metrics)}"
    values = pd.Series([entry[name] for entry in evaluations if entry.get(name) is not None], dtype=float)
    changes = values.iloc[len(values) // 2 :].diff().dropna()
    return float((changes**2).mean() ** 0.5) if len(changes) else None


def collect_facts(runs: Path, sweeps: Mapping[str, Iterable[str]], searches: Iterable[str]) -> dict[str, Any]:
    """Of the sweeps wall-clock, starts and surroundings; of the searches the trials, what mattered, the distances."""
    return {
        "sweeps": [_sweep_facts(runs, recipe, name) for recipe in sweeps for name in sweeps[recipe]],
        "searches": [_search_facts(runs, name) for name in searches],
    }


def _sweep_facts(runs: Path, recipe: str, name: str) -> dict[str, Any]:
    document = read_json(runs / "sweeps" / name / "sweep.json") or {}
    span = document["ended"] - document["started"] if document.get("ended") else None
    facts = {"recipe": recipe, "name": name, "status": document.get("status"), "starts": document.get("starts")}
    return facts | {"wall_clock": span, "surroundings": surroundings(_stored(runs, name))}


def _search_facts(runs: Path, name: str) -> dict[str, Any]:
    folder = runs / "tunings" / name
    studies = (read_json(folder / STUDIES) or {}).get("studies")
    if not studies:
        known = sorted(path.parent.name for path in runs.glob(f"tunings/*/{STUDIES}"))
        raise ConfigError(f"there is no finished search {name!r} in {runs}; choose from: {', '.join(known) or 'none'}")
    (study,) = studies
    best = best_of(study)
    kept = ("dataset", "method", "d", "finished", "pruned", "importances")
    numbers = [{key: row[key] for key in ("number", "value", "by_method", "values")} for row in study["trials"]]
    outcome = {key: value for key, value in (read_json(folder / OUTCOME) or {}).items() if key in RECIPES}
    facts: dict[str, Any] = {"name": name} | {key: study[key] for key in kept}
    facts |= {"seconds": sum(row["seconds"] for row in study["trials"]), "outcome": outcome}
    return facts | {"best": best["number"] if best else None, "trials": numbers}
