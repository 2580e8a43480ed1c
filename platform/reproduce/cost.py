"""What the numbers cost: core-hours, wall-clock, seconds per epoch of every cell."""

from typing import Any

import pandas as pd

from permlab.platform.report.blocks import Block, Entry, Items, Section, Table
from permlab.platform.report.tables import pretty
from permlab.readouts.names import methods_in_order


def cost_section(cells: pd.DataFrame, sweeps: list[dict[str, Any]]) -> Section:
    done = cells[(cells["status"] == "FINISHED") & cells["seconds"].notna()]
    done = done.assign(hours=done["seconds"] * done["threads"] / 3600, per_epoch=done["seconds"] / done["epoch"])
    totals: list[list[Entry | str]] = [
        [str(recipe), pretty(str(dataset)), str(len(part)), f"{part['hours'].sum():.1f}", _engines(part)]
        for (recipe, dataset), part in done.groupby(["recipe", "dataset"], sort=False)
    ]
    spans: list[list[Entry | str]] = [
        [each["name"], each["recipe"], _hours(each["wall_clock"]), str(each["starts"] or "–")] for each in sweeps
    ]
    blocks: list[Block] = [
        "Core-hours are the time that cells worked, times their threads. The wall-clock is from a sweep's first start "
        "to its end, pauses included; “starts” counts how often its command began with cells left to run.",
        Table("Work", ["recipe", "data set", "cells", "core-hours", "engine"], totals),
        Table("Sweeps", ["sweep", "recipe", "wall-clock, hours", "starts"], spans),
    ]
    for (recipe, dataset), part in done.groupby(["recipe", "dataset"], sort=False):
        widths = sorted(part["d"].unique())
        rows: list[list[Entry | str]] = []
        for method in methods_in_order(part["method"]):
            times = [part.loc[(part["method"] == method) & (part["d"] == d), "per_epoch"] for d in widths]
            rows.append([method, *(f"{each.median():.3g}" if len(each) else "–" for each in times)])
        title = f"Seconds per epoch, {pretty(str(dataset))}, {recipe} recipe (median over seeds, evaluations included)"
        blocks.append(Table(title, ["method", *(f"d = {d}" for d in widths)], rows))
    blocks += [Items(each["surroundings"], each["name"]) for each in sweeps if each["surroundings"]]
    return Section("cost", "What it cost, and how to run it again", blocks)


def _engines(part: pd.DataFrame) -> str:
    counts = part["engine"].replace("", "unknown").value_counts()
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _hours(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds / 3600:.1f}"
