"""Readouts alone, forward and backward: ours, padded tensors and PyG's aggregations, in turn, on one core.

Ours is measured with the engine's compiled kernels and, as `plain`, without them.
"""

import math
from itertools import product
from typing import Any

from permlab.platform.bench.machine import caption, facts
from permlab.platform.bench.settings import SortBench
from permlab.platform.bench.sizes import GROWTH, grown, sizes_of
from permlab.platform.bench.tables import new_table, print_table, to
from permlab.platform.bench.worker import Worker
from permlab.platform.display.console import out, progress_bar

SIDES = ("ours", "plain", "padded", "pyg")
LABELS = dict(zip(SIDES, ("ours", "plain", "padded", "PyG"), strict=True))


def measure(bench: SortBench) -> dict[str, Any]:
    cells: list[tuple[dict[str, Any], list[int]]] = []
    for kind, method, d in product(bench.sizes, bench.method, bench.d):
        cells.append(({"sizes": kind, "method": method, "d": d}, sizes_of(kind)))
    for method, (axis, values) in product(bench.method, GROWTH.items() if bench.growth else ()):
        for value in values:
            sizes_grown, d = grown(axis, value)
            cells.append(({"axis": axis, "value": value, "method": method, "d": d}, sizes_grown))
    rows: list[dict[str, Any]] = []
    growth: list[dict[str, Any]] = []
    with Worker(bench.threads) as worker, progress_bar("bench sort", "cells") as report:
        worker.call("sort_cell.start")
        for done, (name, sizes) in enumerate(cells):
            report(done, len(cells))
            timings = worker.call(
                "sort_cell.compare", method=name["method"], d=name["d"], sizes=sizes, repeats=bench.repeats
            )
            batch_facts = {"graphs": len(sizes), "nodes": sum(sizes), "largest": max(sizes)}
            (growth if "axis" in name else rows).append(name | batch_facts | timings | _ratios(timings))
    document = {"bench": "sort", "machine": facts(bench.threads), "settings": bench.model_dump(), "rows": rows}
    return document | {"growth": growth, "exponents": exponents(growth), "giant": _giant(rows)}


def _ratios(timings: dict[str, Any]) -> dict[str, float | None]:
    """How many times as long padded and PyG take as ours, and padded as our plain one."""
    pairs = {"padded_ratio": ("padded", "ours"), "pyg_ratio": ("pyg", "ours"), "plain_ratio": ("padded", "plain")}
    return {name: timings[a]["ms"] / timings[b]["ms"] if timings[a] else None for name, (a, b) in pairs.items()}


def _giant(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Time with one giant graph over the time with the same nodes spread evenly."""
    by_name = {(row["sizes"], row["method"], row["d"]): row["ours"]["ms"] for row in rows}
    return [
        {"method": method, "d": d, "ratio": ms / by_name["even", method, d]}
        for (sizes, method, d), ms in by_name.items()
        if sizes == "giant" and ("even", method, d) in by_name
    ]


def exponents(growth: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """p in time ~ size^p between the two largest sizes of every axis."""
    exponent_rows = []
    for method, axis in dict.fromkeys((row["method"], row["axis"]) for row in growth):
        low, high = [row for row in growth if (row["method"], row["axis"]) == (method, axis)][-2:]
        step = math.log(high["value"] / low["value"])
        powers = {
            side: math.log(high[side]["ms"] / low[side]["ms"]) / step if high[side] and low[side] else None
            for side in SIDES
        }
        exponent_rows.append({"method": method, "axis": axis} | powers)
    return exponent_rows


def show(result: dict[str, Any]) -> None:
    columns = ("d", "nodes", "largest", "ours, ms", "spread", "forward", "plain, ms", "padded, ms", "ratio", "of plain")
    table = new_table(("sizes", "readout"), (*columns, "PyG, ms", "ratio"))
    for row in result["rows"]:
        ours = row["ours"]
        cells = [f"{ours['ms']:.2f}", to(ours["range"], 2), f"{ours['forward_ms']:.2f}", _ms(row.get("plain"))]
        cells += [_ms(row["padded"]), _times(row["padded_ratio"]), _times(row.get("plain_ratio"))]
        cells += [_ms(row["pyg"]), _times(row["pyg_ratio"])]
        table.add_row(row["sizes"], row["method"], str(row["d"]), f"{row['nodes']:,}", f"{row['largest']:,}", *cells)
    print_table(table)
    out.print(
        f"Forward and backward, medians of {result['settings']['repeats']} measurements in turn. "
        f"{caption(result['machine'])}; load {result['machine']['load']} at the end.\n–: not available, or "
        "padding would take more than 128 MB per tensor. Where the head takes rows, ours returns unpadded rows.\n"
        "ours: with the engine's compiled kernels; plain: without them. ratio: to ours; of plain: padded to plain.",
        markup=False,
    )
    if result["giant"]:
        widths = list(dict.fromkeys(row["d"] for row in result["giant"]))
        table = new_table(("readout",), [f"d = {d}" for d in widths])
        for method in dict.fromkeys(row["method"] for row in result["giant"]):
            ratios = {row["d"]: f"{row['ratio']:.2f}×" for row in result["giant"] if row["method"] == method}
            table.add_row(method, *(ratios[d] for d in widths))
        out.print("\nOurs, one giant graph among small ones, over the same nodes spread evenly:")
        print_table(table)
    if result["exponents"]:
        table = new_table(("readout", "what grows"), LABELS.values())
        for row in result["exponents"]:
            powers = ["–" if row.get(side) is None else f"{row[side]:.2f}" for side in SIDES]
            table.add_row(row["method"], row["axis"], *powers)
        out.print("\nTime grows as this power of B graphs, N nodes per graph, d, the largest graph (same total nodes):")
        print_table(table)


def _ms(side: dict[str, Any] | None) -> str:
    return f"{side['ms']:.2f}" if side else "–"


def _times(ratio: float | None) -> str:
    return f"{ratio:.1f}×" if ratio else "–"
