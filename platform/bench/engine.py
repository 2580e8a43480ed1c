"""What each part of the fast engine gains: training with the whole engine and with one part left out, in turn.

Gain = time without the part / time with the whole engine. Two workers share the cores: one runs the engine, the other
the plain task, whose single operators have compiled kernels but which has no engine.
"""

import statistics
import tempfile
from typing import Any

from permlab.platform.bench.cells import cells_of, name_of, title_of
from permlab.platform.bench.machine import caption, facts
from permlab.platform.bench.settings import EngineBench
from permlab.platform.bench.tables import new_table, print_table, spread
from permlab.platform.bench.worker import Worker
from permlab.platform.display.console import out, progress_bar
from permlab.platform.errors import ConfigError, RunError

WHOLE, PLAIN = "whole", "engine=plain"


def measure(bench: EngineBench) -> dict[str, Any]:
    parts, machine = _chosen(bench.parts), facts(bench.threads)
    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="permlab-bench-") as folder,
        Worker(bench.threads) as fast,
        Worker(bench.threads) as plain,
        progress_bar("bench engine", "cells") as report,
    ):
        cells = cells_of(bench, folder)
        for done, cell in enumerate(cells):
            report(done, len(cells))
            rows.append(name_of(cell) | _cell(bench, cell, list(parts), fast, plain))
    accepted = [row for row in rows if "refused" not in row]
    gains = [gain_of(name, accepted) for name in (*parts, PLAIN)] if accepted else []
    document = {"bench": "engine", "machine": machine, "settings": bench.model_dump(), "parts": parts}
    return document | {"rows": rows, "gains": gains}


def _chosen(names: list[str] | None) -> dict[str, str]:
    """The parts to leave out and what each does; the engine has the list of all parts."""
    try:
        from permlab.tasks.engine.door import PARTS
    except ImportError as error:
        raise RunError(f"the fast engine is not installed ({error}); pip install 'permlab[fast]'") from None
    for name in names or ():
        if name not in PARTS:
            raise ConfigError(f"parts={name}: unknown {name!r}: choose from {', '.join(PARTS)}")
    return {name: PARTS[name] for name in names or PARTS}


def _cell(bench: EngineBench, cell: dict[str, Any], parts: list[str], fast: Worker, plain: Worker) -> dict[str, Any]:
    """Milliseconds per step and gain, whole and without each part; or why the engine refuses the cell."""
    times: dict[str, list[float]] = {name: [] for name in (WHOLE, *parts, PLAIN)}
    for _ in range(bench.repeats):
        for name in times:
            if name == PLAIN:
                measured = plain.call("engine_cell.plain", cell=cell, steps=bench.steps)
            else:
                without = [] if name == WHOLE else [name]
                measured = fast.call("engine_cell.fast", cell=cell, steps=bench.steps, without=without)
            if isinstance(measured, str):
                return {"refused": measured if name == WHOLE else f"without {name}: {measured}"}
            times[name].append(measured)
    ms = {name: statistics.median(values) for name, values in times.items()}
    ranges = {name: spread(values) for name, values in times.items()}
    return {"ms": ms, "range": ranges, "gain": {name: ms[name] / ms[WHOLE] for name in (*parts, PLAIN)}}


def gain_of(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means over all cells and per data set, and the extremes."""
    by_gain = sorted(rows, key=lambda row: row["gain"][name])
    return {
        "part": name,
        "mean": _mean(name, rows),
        "by_dataset": {
            dataset: _mean(name, [row for row in rows if row["dataset"] == dataset])
            for dataset in dict.fromkeys(row["dataset"] for row in rows)
        },
        "least": by_gain[0]["gain"][name],
        "least_at": title_of(by_gain[0]),
        "most": by_gain[-1]["gain"][name],
        "most_at": title_of(by_gain[-1]),
    }


def _mean(name: str, rows: list[dict[str, Any]]) -> float:
    return statistics.geometric_mean(row["gain"][name] for row in rows)


def show(result: dict[str, Any]) -> None:
    gains, settings, machine = result["gains"], result["settings"], result["machine"]
    names = [gain["part"] for gain in gains]
    cells = new_table(("data set", "method"), ("d", "whole, ms", *names))
    for row in result["rows"]:
        if "refused" not in row:
            cell_gains = (f"{row['gain'][name]:.2f}×" for name in names)
            cells.add_row(row["dataset"], row["method"], str(row["d"]), f"{row['ms'][WHOLE]:.2f}", *cell_gains)
    print_table(cells)
    for row in result["rows"]:
        if "refused" in row:
            out.print(f"{title_of(row)} is left out because the engine refuses it: {row['refused']}", markup=False)
    out.print()
    datasets = list(dict.fromkeys(row["dataset"] for row in result["rows"] if "refused" not in row))
    table = new_table(("part",), ("gain", *datasets, "least", "at", "most", "at"))
    for gain in gains:
        means = (f"{mean:.2f}×" for mean in (gain["mean"], *gain["by_dataset"].values()))
        extremes = (f"{gain['least']:.2f}×", gain["least_at"], f"{gain['most']:.2f}×", gain["most_at"])
        table.add_row(gain["part"], *means, *extremes)
    print_table(table)
    for name, description in result["parts"].items():
        out.print(f"{name}: {description}", markup=False)
    out.print(
        "Gain: step time without the part / step time with the whole engine; geometric means. Medians of "
        f"{settings['repeats']} measurements in turn, batch {settings['batch_size']}. {caption(machine)}; load "
        f"{machine['load']} at the start.",
        markup=False,
    )
