"""How fast training is compared with the plain way: the stored result of `permlab bench train`, if there is one."""

from typing import Any

from permlab.platform.bench.machine import caption
from permlab.platform.report.blocks import Entry, Figure, Panel, Section, Series, Table
from permlab.platform.report.findings import Findings
from permlab.platform.report.tables import pretty


def speed_section(findings: Findings) -> Section | None:
    speed = findings.sweep.speed
    if speed is None:
        return None
    machine, settings, rows = speed["machine"], speed["settings"], speed["rows"]
    how = (
        "A training step through permlab train beside a script of PyG and Lightning: same model, graphs, batch size "
        f"({settings['batch_size']}) and optimiser, losses compared at the same weights. Medians of "
        f"{settings['repeats']} runs in turn, evaluation left out on both sides. {caption(machine)}; load "
        f"{machine['load']} when it began. Shares are of a GEMM's {machine['gemm_gflops']:.0f} GFLOP/s and of a "
        f"copy's {machine['copy_gb_s']:.1f} GB/s on that machine. The sweep of this report may have run elsewhere."
    )
    return Section("speed", "Speed", [how, _figure(rows, caption(machine)), _table(rows)])


def _figure(rows: list[dict[str, Any]], place: str) -> Figure:
    panels = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        part = [row for row in rows if row["dataset"] == dataset]
        series = [
            _series(method, [row for row in part if row["method"] == method])
            for method in dict.fromkeys(row["method"] for row in part)
        ]
        widths = sorted({float(row["d"]) for row in part})
        panels.append(
            Panel(pretty(dataset), "d", "times as fast", series, x_log=True, y_log=True, share="ratio", x_ticks=widths)
        )
    spoken = "; ".join(f"{row['method']} on {row['dataset']} at d = {row['d']}: {row['ratio']:.1f}×" for row in rows)
    title = "Training beside plain PyG and Lightning"
    bars = f"Bars: smallest to largest ratio of the runs. {place}."
    return Figure("speed", title, f"{title}, how many times as fast. {spoken}.", panels, 2, bars)


def _series(method: str, rows: list[dict[str, Any]]) -> Series:
    rows = sorted(rows, key=lambda row: row["d"])
    low, high = ([row["ratio_range"][end] for row in rows] for end in (0, 1))
    return Series(method, [row["d"] for row in rows], [row["ratio"] for row in rows], low, high)


def _table(rows: list[dict[str, Any]]) -> Table:
    """Results of earlier versions do not name the engine."""
    header = ["data set", "readout", "d", "ours, ms", "PyG, ms", "ratio", "of GEMM", "of copy", "engine"]
    body: list[list[Entry | str]] = [
        [
            pretty(row["dataset"]),
            row["method"],
            str(row["d"]),
            f"{row['ours_ms']:.1f}",
            f"{row['plain_ms']:.1f}",
            f"{row['ratio']:.1f}×",
            f"{row['gemm_share']:.0%}",
            f"{row['copy_share']:.0%}",
            row.get("engine", "–"),
        ]
        for row in rows
    ]
    return Table("A training step", header, body, folded=len(rows) > 12)
