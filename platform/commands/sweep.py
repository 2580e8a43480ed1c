"""Run a grid: every combination of dataset × method × d × seed.

  permlab sweep quick method=[sum,sort,ordering] d=[1,10] seed=[0,1]
  permlab sweep paper-proteins seed=[0,1,2,3,4] --address auto
  permlab sweep paper-proteins seed=[0,1,2,3,4] tuned=NAME      with what `permlab tune` chose
  permlab sweep paper-proteins seed=[0,1,2,3,4] tune.trials=20  tune first, then sweep

Words are recipes, YAML files and key=value; dataset, method, d and seed may be lists. The same command goes on where
it was stopped or killed: finished cells are not run again.

"""

import argparse
import os
from pathlib import Path
from typing import Any

from permlab.datasets.cache import folder_of
from permlab.datasets.catalogue import parse_name
from permlab.datasets.manifest import open_array
from permlab.platform.display.build_bar import build_if_missing
from permlab.platform.display.console import err, out, print_json
from permlab.platform.errors import ConfigError
from permlab.platform.files.liveness import driving
from permlab.platform.run.code_digest import other_code
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import describe, read_settings
from permlab.platform.sweep.cell_task import run_cell_in_worker
from permlab.platform.sweep.folder import close_folder, open_folder, status_of
from permlab.platform.tracking.courier import Courier
from permlab.platform.tuning.choice import (
    Choice,
    Kind,
    baseline_name,
    check_choice,
    read_choices,
    write_choices,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    keys = describe(SweepSettings)
    width = max(len(key) for key, _, _ in keys)
    lines = [f"  {key:<{width}}  {what} ({'none' if value is None else value})" for key, value, what in keys]
    parser.description = "\n".join([f"{parser.description}settings:", *lines])
    parser.add_argument("words", nargs="*", metavar="WORD", help="recipe, YAML file or key=value")
    parser.add_argument("--address", help="Ray cluster to use (default: RAY_ADDRESS, else Ray on this machine)")
    parser.add_argument("--plan", action="store_true", help="show the plan and stop")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    settings = read_settings(SweepSettings, args.words)
    if settings.tune and not args.plan:
        return tune_and_sweep(settings, args.address, as_json=args.json)
    return sweep(settings, args.address, plan_only=args.plan, as_json=args.json)


def tune_and_sweep(settings: SweepSettings, address: str | None, *, as_json: bool) -> int:
    """Tune every (dataset, method, d), run the seeds with what was chosen, and with the default settings to compare."""
    from permlab.platform.commands.tune import tune

    assert settings.tune
    code = tune(settings, address)
    if code:
        return code
    tuned = settings.model_copy(update={"tune": None, "tuned": [settings.name]})
    code = sweep(tuned, address, as_json=as_json)
    if code or not settings.tune.baseline:
        return code
    data = settings.data.model_copy(update={"split_seed": settings.data.split_seed or 0})
    name = baseline_name(settings.name)
    err.print(f"\n{name}: the default settings, to compare", markup=False)
    return sweep(settings.model_copy(update={"tune": None, "name": name, "data": data}), address, quiet=as_json)


def sweep(
    settings: SweepSettings,
    address: str | None,
    *,
    plan_only: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    runner: Any = run_cell_in_worker,
) -> int:
    """Plan, run, report; returns the exit code."""
    from permlab.platform.sweep.plan import make_plan

    for dataset in settings.dataset:
        build_if_missing(dataset)
    choices = tuned_choices(settings)
    plan = make_plan(settings.cells(choices))
    for cell in plan if choices else []:
        cell.tags = choices[cell.settings.dataset, cell.settings.method, cell.settings.d].tags
    todo = [cell for cell in plan if cell.result is None]
    if plan_only:
        return _show_plan(plan, as_json)
    if others := [how for cell in plan if cell.result and (how := other_code(cell.result))]:
        err.print(
            f"{len(others)} of the finished cells were {others[0]}; `permlab train … --fresh` runs one again",
            markup=False,
        )
    folder = Path(settings.runs) / "sweeps" / settings.name
    with driving(folder):
        open_folder(folder, settings, plan)
        if choices:
            write_choices(choices.values(), folder)
        code, message = 0, ""
        try:
            if todo:
                code, message = execute(settings, plan, runner, folder, address)
        except BaseException:
            _close(folder, "FAILED")
            raise
        return _report(settings, plan, folder, code, message, as_json, quiet)


def tuned_choices(settings: SweepSettings) -> dict[Kind, Choice]:
    """What the named tunings chose for the cells of this grid; each (dataset, method, d) must have been tuned."""
    from permlab.platform.sweep.plan import manifest_of

    if not settings.tuned:
        return {}
    found = read_choices(settings.tuned, Path(settings.runs))
    chosen: dict[Kind, Choice] = {}
    for cell in settings.model_copy(update={"seed": settings.seed[:1]}).cells():
        choice = found.get((cell.dataset, cell.method, cell.d))
        if choice is None:
            known = ", ".join(choice.study for choice in found.values())
            raise ConfigError(f"nothing was tuned for {cell.dataset} {cell.method} d={cell.d}; tuned: {known}")
        group = open_array(folder_of(parse_name(cell.dataset)), "group", cell.dataset)
        check_choice(choice, cell, manifest_of(cell.dataset), group)
        chosen[choice.kind] = choice
    return chosen


def execute(
    settings: SweepSettings, plan: list[Any], runner: Any, folder: Path, address: str | None
) -> tuple[int, str]:
    """Run what is left of the plan; exit code, and what to say about it."""
    from permlab.platform.display.live_view import SweepView, clock
    from permlab.platform.run.signals import stop_on_signal
    from permlab.platform.sweep.estimate import TimeLeft
    from permlab.platform.sweep.plan import wall_clock
    from permlab.platform.sweep.ray_tasks import Progress, cluster, refuse_sqlite, run_cells, slots
    from permlab.platform.tracking.store import tracking_uri

    todo = [cell for cell in plan if cell.result is None]
    joins = bool(address or os.environ.get("RAY_ADDRESS"))
    courier = Courier(folder, settings.track)
    if not joins:
        courier.send()  # it gets ready while Ray does
    with cluster(address) as nodes:
        if settings.track and joins:
            refuse_sqlite(nodes, tracking_uri(Path(settings.runs)))
            courier.send()
        room = slots(settings.resources)
        done = len(plan) - len(todo)
        err.print(
            f"{settings.name}: {len(plan)} cells, {done} done already, {len(todo)} to run, {room} at a time on "
            f"{nodes} node{'s' * (nodes > 1)}; about {clock(wall_clock(plan, room))}",
            markup=False,
        )
        with SweepView(settings.name, len(todo)) as view, stop_on_signal() as stop_signal:
            time_left = TimeLeft(todo, room)

            def show(progress: Progress) -> None:
                view.update(progress, time_left.seconds(progress.started, progress.lost))

            progress = run_cells(settings, todo, runner, show, stop_signal)
            stopped = stop_signal()
        # Before Ray is shut down: the courier delivers the end meanwhile
        _close(folder, "KILLED" if stopped else "FAILED" if progress.failed else "FINISHED", plan)
    gave_up = progress.failed > settings.max_failed
    courier.wait(seconds=600)
    if stopped:
        return 128 + stopped, "stopped; the same command goes on from the checkpoints"
    if gave_up:
        return 1, f"gave up after {progress.failed} failed cells (max_failed={settings.max_failed})"
    return (1, f"{progress.failed} cells failed; the same command tries them again") if progress.failed else (0, "")


def _close(folder: Path, status: str, plan: list[Any] | None = None) -> None:
    from permlab.platform.report.results import write_results

    if plan is not None:
        write_results(plan, folder)
    close_folder(folder, status)


def _show_plan(plan: list[Any], as_json: bool) -> int:
    from rich.markup import escape
    from rich.table import Table

    if as_json:
        print_json({"cells": [cell.row | {"finished": cell.result is not None} for cell in plan]})
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("cell", "data set", "expected, s", "state"):
        table.add_column(name, justify="right" if name == "expected, s" else "left")
    for cell in plan:
        state = "finished" if cell.result else "to run"
        table.add_row(cell.settings.name, escape(cell.settings.dataset), f"{cell.seconds:.1f}", state)
    out.print(table)
    return 0


def _report(
    settings: SweepSettings, plan: list[Any], folder: Path, code: int, message: str, as_json: bool, quiet: bool
) -> int:
    from permlab.platform.report.results import other_recipe, results_table

    in_grid_order = {cell.name: i for i, cell in enumerate(settings.cells())}
    ordered = sorted(
        plan, key=lambda cell: (settings.dataset.index(cell.settings.dataset), in_grid_order[cell.settings.name])
    )
    if code == 0 and not status_of(folder):
        _close(folder, "FINISHED", ordered)  # there was nothing to run
    if as_json:
        print_json({"name": settings.name, "exit_code": code, "cells": [_row(cell) for cell in ordered]})
    elif not quiet:
        out.print(results_table(ordered))
        if how := other_recipe(ordered):
            out.print(f"\n{how}", markup=False)
        out.print(
            f"\nresults: {folder / 'results.csv'}; dashboard: permlab ui; cells: permlab status {settings.name}",
            markup=False,
        )
    if message:
        err.print(f"permlab sweep: {message}", markup=False)
    return code


def _row(cell: Any) -> dict[str, Any]:
    result = cell.result or {}
    return cell.row | {
        "status": "FINISHED" if cell.result else "MISSING",
        "metrics": result.get("metrics"),
        "seconds": result.get("seconds"),
    }
