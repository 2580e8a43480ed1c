"""Run a sweep from its settings to its results: plan, tune first if asked to, run, write the results."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from permlab.datasets.cache import folder_of
from permlab.datasets.catalogue import parse_name
from permlab.datasets.manifest import chosen_targets, open_array
from permlab.platform.display.build_bar import build_if_missing
from permlab.platform.display.console import note
from permlab.platform.errors import ConfigError, Ended
from permlab.platform.files.liveness import driving
from permlab.platform.large_imports import large_imports
from permlab.platform.run.code_digest import other_code
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.sweep.cell_task import run_cell_in_worker
from permlab.platform.sweep.folder import close_folder, open_folder, status_of
from permlab.platform.sweep.plan import Cell, make_plan, manifest_of
from permlab.platform.tracking.courier import Courier
from permlab.platform.tuning.choice import Choice, Kind, baseline_name, check_choice, read_choices, write_choices


@dataclass
class Driven:
    """A sweep that was run: its cells in the order of the grid, its folder, and how it ended."""

    name: str
    cells: list[Cell]
    folder: Path
    ended: Ended


def run_sweeps(settings: SweepSettings, address: str | None) -> Iterator[Driven]:
    """Run the sweep. With `tune`, tune every (dataset, method, d) first, then compare with the defaults."""
    if settings.tune is None:
        yield run_sweep(settings, address)
        return
    from permlab.platform.tuning.tune import tune

    tune(settings, address).check()
    tuned = run_sweep(settings.model_copy(update={"tune": None, "tuned": [settings.name]}), address)
    yield tuned
    if not tuned.ended.code and settings.tune.baseline:
        data = settings.data.model_copy(update={"split_seed": settings.data.split_seed or 0})
        name = baseline_name(settings.name)
        note(f"\n{name}: the default settings, to compare")
        yield run_sweep(settings.model_copy(update={"tune": None, "name": name, "data": data}), address)


def plan_of(settings: SweepSettings) -> tuple[list[Cell], dict[Kind, Choice]]:
    """The cells, the longest first, and their tuned settings."""
    for dataset in settings.dataset:
        build_if_missing(dataset)
    check_models(settings)
    choices = tuned_choices(settings)
    plan = make_plan(settings.cells(choices))
    for cell in plan if choices else []:
        cell.tags = choices[cell.settings.dataset, cell.settings.method, cell.settings.d].tags
    return plan, choices


def check_models(settings: SweepSettings) -> None:
    """Build the model of every data set, method and d that is not all built in, so that a plug-in that does not fit is
    refused before any cell is run. This imports torch, which takes seconds.
    """
    cells = settings.model_copy(update={"seed": settings.seed[:1]}).cells()
    if not any(cell.customised for cell in cells):
        return
    with large_imports():
        from permlab.platform.plugins.resolve import callbacks_named
        from permlab.platform.run.model import DataFacts, build_model, build_objective
    for cell in cells:
        if cell.customised:
            manifest = manifest_of(cell.dataset)
            facts = DataFacts.of(manifest, chosen_targets(manifest, cell.data.target))
            build_model(cell, facts, build_objective(cell, facts).outputs)
            callbacks_named(cell.train.callbacks)


def run_sweep(settings: SweepSettings, address: str | None, runner: Any = run_cell_in_worker) -> Driven:
    """Run the unfinished cells of the sweep; `runner` runs one."""
    plan, choices = plan_of(settings)
    if outdated := [how for cell in plan if cell.result and (how := other_code(cell.result))]:
        note(f"{len(outdated)} of the finished cells were {outdated[0]}; `permlab train … --fresh` runs one again")
    folder = Path(settings.runs) / "sweeps" / settings.name
    with driving(folder):
        open_folder(folder, settings, plan)
        if choices:
            write_choices(choices.values(), folder)
        ended = Ended()
        try:
            if any(cell.result is None for cell in plan):
                ended = _execute(settings, plan, runner, folder, address)
        except BaseException:
            close_folder(folder, "FAILED")
            raise
        cells = _in_grid_order(settings, plan)
        if not ended.code and not status_of(folder):
            _close(folder, "FINISHED", cells)  # there was nothing to run
    return Driven(settings.name, cells, folder, ended)


def tuned_choices(settings: SweepSettings) -> dict[Kind, Choice]:
    """The choices of the named tunings for the cells of this grid; each (dataset, method, d) must have been tuned."""
    if not settings.tuned:
        return {}
    available = read_choices(settings.tuned, Path(settings.runs))
    chosen: dict[Kind, Choice] = {}
    for cell in settings.model_copy(update={"seed": settings.seed[:1]}).cells():
        choice = available.get((cell.dataset, cell.method, cell.d))
        if choice is None:
            known = ", ".join(choice.study for choice in available.values())
            raise ConfigError(f"nothing was tuned for {cell.dataset} {cell.method} d={cell.d}; tuned: {known}")
        group = open_array(folder_of(parse_name(cell.dataset)), "group", cell.dataset)
        check_choice(choice, cell, manifest_of(cell.dataset), group)
        chosen[choice.kind] = choice
    return chosen


def _execute(settings: SweepSettings, plan: list[Cell], runner: Any, folder: Path, address: str | None) -> Ended:
    """Run the unfinished cells of the plan."""
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
        courier.send()  # it starts while Ray does
    with cluster(address) as nodes:
        if settings.track and joins:
            refuse_sqlite(nodes, tracking_uri(Path(settings.runs)))
            courier.send()
        room = slots(settings.resources)
        done = len(plan) - len(todo)
        note(
            f"{settings.name}: {len(plan)} cells, {done} done already, {len(todo)} to run, {room} at a time on "
            f"{nodes} node{'s' * (nodes > 1)}; about {clock(wall_clock(plan, room))}"
        )
        with SweepView(settings.name, len(todo)) as view, stop_on_signal() as stop_signal:
            time_left = TimeLeft(todo, room)

            def show(progress: Progress) -> None:
                view.update(progress, time_left.seconds(progress.started, progress.lost))

            progress = run_cells(settings, todo, runner, show, stop_signal)
            stopped = stop_signal()
        # Before Ray shuts down, so that the courier delivers the end meanwhile
        status = "KILLED" if stopped else "FAILED" if progress.failed else "FINISHED"
        _close(folder, status, _in_grid_order(settings, plan))
    courier.wait(seconds=600)
    if stopped:
        return Ended(128 + stopped, "stopped; the same command resumes from the checkpoints")
    if progress.failed > settings.max_failed:
        return Ended(1, f"gave up after {progress.failed} failed cells (max_failed={settings.max_failed})")
    if progress.failed:
        return Ended(1, f"{progress.failed} cells failed; the same command tries them again")
    return Ended()


def _close(folder: Path, status: str, cells: list[Cell]) -> None:
    from permlab.platform.report.results import write_results

    write_results(cells, folder)
    close_folder(folder, status)


def _in_grid_order(settings: SweepSettings, plan: list[Cell]) -> list[Cell]:
    place = {cell.name: i for i, cell in enumerate(settings.cells())}
    return sorted(plan, key=lambda cell: (settings.dataset.index(cell.settings.dataset), place[cell.settings.name]))
