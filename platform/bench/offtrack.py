"""Training with settings other than the paper's, compared with the plain script at the same settings."""

import tempfile
from typing import Any

from permlab.platform.bench import train
from permlab.platform.bench.cells import title_of
from permlab.platform.bench.machine import caption, facts
from permlab.platform.bench.settings import OfftrackBench
from permlab.platform.bench.tables import averages, new_table, print_table, reasons
from permlab.platform.bench.variants import VARIANTS
from permlab.platform.display.console import out


def measure(bench: OfftrackBench) -> dict[str, Any]:
    """`permlab bench train`, variant by variant."""
    machine = facts(bench.threads)
    variants = {name: (VARIANTS[name], bench.changed(VARIANTS[name])) for name in bench.variant}
    rows = []
    for name, (variant, changed) in variants.items():
        with tempfile.TemporaryDirectory(prefix="permlab-bench-") as compiled:
            own_cache = {"NUMBA_CACHE_DIR": compiled} if variant.environment else {}
            result = train.measure(changed, variant.environment | own_cache, f"offtrack, {variant.description}")
        instructions = result["machine"]["instructions"]
        rows += [{"variant": name, "instructions": instructions} | row for row in result["rows"]]
    return {"bench": "offtrack", "machine": machine, "settings": bench.model_dump(), "rows": rows}


def show(result: dict[str, Any]) -> None:
    rows, settings, machine = result["rows"], result["settings"], result["machine"]
    table = new_table(("variant", "data set", "method"), train.SPEED_COLUMNS)
    for row in rows:
        table.add_row(row["variant"], row["dataset"], row["method"], *train.speed_cells(row))
    print_table(table)
    slowest = min(rows, key=lambda row: row["ratio"])
    descriptions = "; ".join(f"{name}: {VARIANTS[name].description}" for name in settings["variant"])
    out.print(
        f"A training step, batch {settings['batch_size']}; medians of {settings['repeats']} runs in turn. "
        f"{caption(machine)}; load {machine['load']} at the start.\n{descriptions}.\n"
        f"{reasons(rows)}{averages(rows, 'variant')}\n"
        f"The smallest ratio: {slowest['ratio']:.1f}×, {slowest['variant']}, {title_of(slowest)}",
        markup=False,
    )
