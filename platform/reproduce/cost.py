"""What the numbers cost, and where they come from: core-hours, wall-clock, seconds per epoch, commits and machines."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from permlab.platform.report.as_run import seeds_told
from permlab.platform.report.blocks import Block, Entry, Items, Section, Table
from permlab.platform.report.tables import pretty
from permlab.readouts.names import methods_in_order

HOW = (
    "Core-hours: training time of finished cells times their threads, evaluations included, without what was repeated "
    "after interruptions; a cell counts for the sweep that its numbers are taken from. The wall-clock is the time "
    "that a sweep's commands ran, without the pauses between them; “–” if an older version has not kept it. A sweep "
    "was continued each time that its command started again with cells left to run: after an interruption, or with "
    "more seeds. The Parquet file has seconds, epochs, threads, sweep, commit, processor, settings and all metrics of "
    "every cell."
)
HEADER = ["sweep", "started", "recipe", "state", "finished", "core-hours", "wall-clock, hours", "continued"]
ORIGIN = ["version", "commit", "code", "cpu", "engine"]  # of a cell's numbers


def cost_section(cells: pd.DataFrame, sweeps: list[dict[str, Any]]) -> Section:
    done = cells[cells["status"] == "FINISHED"]
    done = done.assign(hours=done["seconds"] * done["threads"] / 3600, per_epoch=done["seconds"] / done["epoch"])
    groups = [
        (str(recipe), pretty(str(dataset)), part)
        for (recipe, dataset), part in done.groupby(["recipe", "dataset"], sort=False)
    ]
    totals: list[list[Entry | str]] = [
        [recipe, dataset, str(len(part)), f"{part['hours'].sum():.1f}"] for recipe, dataset, part in groups
    ]
    hours = done.groupby(["recipe", "sweep", "started"])["hours"].sum()
    blocks: list[Block] = [
        HOW,
        Table("Work", ["recipe", "data set", "cells", "core-hours"], totals),
        Table(
            "Sweeps", HEADER, [_sweep_row(s, hours.get((s["recipe"], s["name"], s["started"]), 0.0)) for s in sweeps]
        ),
    ]
    if origins := [line for group in groups for line in _origins(*group)]:
        blocks.append(Items(origins, "Where the numbers come from"))
    if sentence := _again(done["again"].dropna()):
        blocks.append(sentence)
    for recipe, dataset, part in groups:
        title = f"Seconds per epoch, {dataset}, {recipe} recipe: median over seeds and machines, evaluations included"
        blocks.append(by_method_and_d(part, title, lambda seeds: f"{seeds['per_epoch'].median():.3g}"))
    blocks += [Items(s["surroundings"], f"{s['name']}, started {_day(s)}") for s in sweeps if s["surroundings"]]
    return Section("cost", "What it cost, and how to run it again", blocks)


def by_method_and_d(cells: pd.DataFrame, title: str, entry: Callable[[pd.DataFrame], str]) -> Table:
    """`entry`: of the seeds of a method and d."""
    widths = sorted(cells["d"].unique())
    rows: list[list[Entry | str]] = []
    for method in methods_in_order(cells["method"]):
        parts = [cells[(cells["method"] == method) & (cells["d"] == d)] for d in widths]
        rows.append([method, *(entry(seeds) if len(seeds) else "–" for seeds in parts)])
    return Table(title, ["method", *(f"d = {d}" for d in widths)], rows)


def _day(sweep: dict[str, Any]) -> str:
    return str(datetime.fromtimestamp(sweep["started"], UTC).date())


def _sweep_row(sweep: dict[str, Any], hours: float) -> list[Entry | str]:
    state = {"KILLED": "interrupted"}.get(sweep["status"], sweep["status"].lower())
    wall_clock = "–" if sweep["wall_clock"] is None else f"{sweep['wall_clock'] / 3600:.1f}"
    finished = f"{sweep['finished']} of {sweep['planned']}"
    continued = str(max(0, sweep["starts"] - 1))
    return [sweep["name"], _day(sweep), sweep["recipe"], state, finished, f"{hours:.1f}", wall_clock, continued]


def _origins(recipe: str, dataset: str, part: pd.DataFrame) -> list[str]:
    """One line per commit, code, processor and engine: these numbers agree with others up to rounding at best."""
    return [
        f"{recipe}, {dataset}: {len(own)} cells, seeds {seeds_told(own)}: result version {version:g}, commit "
        f"{commit[:7] or 'unknown'}, digest of its code {code or 'unknown'}, {cpu or 'unknown processor'}, "
        f"engine {engine or 'unknown'}"
        for (version, commit, code, cpu, engine), own in part.groupby(ORIGIN, sort=False)
    ]


def _again(differences: pd.Series) -> str:
    if differences.empty:
        return ""
    return (
        f"Cells that were finished more than once, on several machines say: {len(differences)}. The first result "
        f"counts; another one differs from it in {(differences > 0).sum()} of them, by {differences.max():.2g} in a "
        "metric at most."
    )
