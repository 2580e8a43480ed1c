"""Run a grid: every combination of dataset × method × d × fold × seed.

  permlab sweep quick method=[sum,sort,ordering] d=[1,10] seed=[0,1]
  permlab sweep paper-proteins seed=[0,1,2,3,4] --address auto
  permlab sweep paper-proteins seed=[0,1,2,3,4] tuned=NAME      with what `permlab tune` chose
  permlab sweep paper-proteins seed=[0,1,2,3,4] tune.trials=20  tune first, then sweep
  permlab sweep fair-comparison                                 nested cross-validation on published folds

Words are recipes, YAML files and key=value; dataset, method, d, data.fold and seed may be lists. The same command
resumes where it was stopped or killed: finished cells are not run again.

"""

import argparse
import os
from typing import Any

from permlab.platform.display.console import err, out, print_json
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import read_settings, settings_help
from permlab.platform.sweep.drive import Driven, plan_of, run_sweeps
from permlab.platform.sweep.plan import Cell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = f"{parser.description}{settings_help(SweepSettings)}"
    parser.add_argument("words", nargs="*", metavar="WORD", help="recipe, YAML file or key=value")
    parser.add_argument("--address", help="Ray cluster to use (default: RAY_ADDRESS, else Ray on this machine)")
    parser.add_argument("--plan", action="store_true", help="show the plan and stop")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    settings = read_settings(SweepSettings, args.words)
    if args.plan:
        _show_plan(plan_of(settings)[0], settings, args)
        return 0
    code = 0
    for number, driven in enumerate(run_sweeps(settings, args.address)):
        if not args.json:
            _show(driven)
        elif number == 0:  # --json prints one document, so the sweep for comparison is left out
            cells = [_row(cell) for cell in driven.cells]
            print_json({"name": driven.name, "exit_code": driven.ended.code, "cells": cells})
        if driven.ended.message:
            err.print(f"permlab sweep: {driven.ended.message}", markup=False)
        code = driven.ended.code
    return code


def _show_plan(plan: list[Cell], settings: SweepSettings, args: argparse.Namespace) -> None:
    from rich.markup import escape
    from rich.table import Table

    from permlab.platform.display.live_view import clock
    from permlab.platform.sweep.plan import wall_clock

    todo = [cell for cell in plan if cell.result is None]
    seconds = sum(cell.seconds for cell in todo)
    total = {"cells": len(plan), "finished": len(plan) - len(todo), "to_run": len(todo)}
    if args.json:
        cells = [cell.row | {"finished": cell.result is not None} for cell in plan]
        print_json({"cells": cells, "total": total | {"expected_seconds": round(seconds, 1)}})
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("cell", "data set", "expected, s", "state"):
        table.add_column(name, justify="right" if name == "expected, s" else "left")
    for cell in plan:
        state = "finished" if cell.result else "to run"
        table.add_row(cell.settings.name, escape(cell.settings.dataset), f"{cell.seconds:.1f}", state)
    out.print(table)
    room = int(len(os.sched_getaffinity(0)) / settings.resources.cpus)
    here = f"; about {clock(wall_clock(plan, room))} on this machine, {room} at a time" if room > 1 else ""
    elsewhere = args.address or os.environ.get("RAY_ADDRESS") or settings.resources.gpus
    took = f"about {clock(seconds)} one after the other{'' if elsewhere else here}"
    done = len(plan) - len(todo)
    out.print(f"\ntotal: {len(plan)} cells, {done} finished, {len(todo)} to run: {took}", markup=False)


def _show(driven: Driven) -> None:
    from permlab.platform.report.results import other_recipe, results_table

    out.print(results_table(driven.cells))
    if differences := other_recipe(driven.cells):
        out.print(f"\n{differences}", markup=False)
    results = driven.folder / "results.csv"
    out.print(f"\nresults: {results}; dashboard: permlab ui; cells: permlab status {driven.name}", markup=False)


def _row(cell: Cell) -> dict[str, Any]:
    result = cell.result or {}
    return cell.row | {
        "status": "FINISHED" if cell.result else "MISSING",
        "metrics": result.get("metrics"),
        "seconds": result.get("seconds"),
    }
