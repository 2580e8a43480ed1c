"""Sweeps that lie in a runs folder as drivers leave them, from real settings: what was asked for, and what finished."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from permlab.platform.files.json_files import write_json
from permlab.platform.report.on_disk import read_on_disk
from permlab.platform.report.stored import StoredSweep
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import describe
from permlab.platform.tuning.choice import Choice, write_choices
from tests.platform.report.making import write_cell


@dataclass
class Settled:
    """A sweep, the cells that finished, and the settings that a tuning chose for them."""

    settings: SweepSettings
    finished: list[RunSettings]
    stored: StoredSweep
    choices: list[Choice] = field(default_factory=list)
    default: bool = False  # the default settings were run too

    def by_value(self, read: Callable[[RunSettings], Any]) -> dict[str, Any]:
        """The values of a setting by method and d, as `method-dD`."""
        return {f"{cell.method}-d{cell.d}": read(cell) for cell in self.finished}


def settle(
    runs: Path,
    settings: SweepSettings,
    choices: Iterable[Choice] = (),
    finishes: Callable[[RunSettings], bool] = lambda cell: True,
    default: bool = False,
) -> Settled:
    chosen = {choice.kind: choice for choice in choices}
    cells = settings.cells(chosen)
    finished = [cell for cell in cells if finishes(cell)]
    _write(runs, settings, cells, finished)
    folder = runs / "sweeps" / settings.name
    if chosen:
        write_choices(chosen.values(), folder)
        (runs / "tunings" / "first").mkdir(parents=True, exist_ok=True)
        write_json(runs / "tunings" / "first" / "studies.json", {"studies": [_study(choice) for choice in choices]})
    if default:
        data = settings.data.model_copy(update={"split_seed": 0})
        plain = settings.model_copy(update={"name": f"{settings.name}.default", "tuned": [], "data": data})
        _write(runs, plain, plain.cells(), plain.cells())
    stored = read_on_disk(settings.name, runs)
    assert stored is not None
    return Settled(settings, finished, stored, list(choices), default)


def _write(runs: Path, settings: SweepSettings, cells: list[RunSettings], finished: list[RunSettings]) -> None:
    plan = []
    for cell in cells:
        facts = {name: getattr(cell, name) for name in ("dataset", "method", "d", "seed")}
        key = f"{settings.name}-{cell.name}-{cell.data.fold}"
        plan.append({"key": key, "name": cell.name} | facts)
        if cell in finished:
            epochs = [*range(cell.train.eval_every, cell.train.epochs, cell.train.eval_every), cell.train.epochs]
            ended = {"engine": "fast", "params": texts(cell)}
            write_cell(runs / "cells" / key, cell.name, facts, epochs, **ended, fold=cell.data.fold or 0)
    folder = runs / "sweeps" / settings.name
    folder.mkdir(parents=True)
    ended = {"status": "FINISHED" if len(finished) == len(cells) else "KILLED", "ended": 1e9 + 1}
    write_json(folder / "plan.json", {"cells": plan})
    write_json(folder / "sweep.json", {"name": settings.name, "params": texts(settings), "started": 1e9} | ended)


def texts(settings: Any) -> dict[str, str]:
    return {name: str(value) for name, value, _ in describe(type(settings), settings)}


def choice(method: str, d: int, values: Mapping[str, Any], trial: int = 1) -> Choice:
    facts = {"dataset": "proteins_full", "method": method, "d": d, "digest": "0" * 64, "split_seed": 0, "holdout": 200}
    found = {"metric": "auc", "value": 0.8, "default": 0.7, "trial": trial, "settings": dict(values)}
    return Choice(study=f"first/proteins_full/{method}/d{d}", **facts, **found)


def _study(choice: Choice) -> dict[str, Any]:
    """As in studies.json: the default settings and the trial that was chosen."""
    facts = {name: getattr(choice, name) for name in ("study", "dataset", "method", "d", "metric")}
    rate = {"low": 1e-4, "high": 1e-1, "log": True}
    values = [(0, {"train.learning_rate": 0.001}, choice.default), (1, choice.settings, choice.value)]
    trials = [
        {"number": number, "state": "COMPLETE", "value": value, "values": tried, "steps": {"10": value}}
        for number, tried, value in values
    ]
    space = {"space": {"train.learning_rate": rate}, "importances": {"train.learning_rate": 1.0}}
    return facts | {"maximise": True, "finished": 2, "pruned": 0, "epochs_saved": 0.0, "trials": trials} | space
