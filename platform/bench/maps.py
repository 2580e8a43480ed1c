"""Every readout alone, forward and backward, at the sizes of PROTEINS_full, beside PyG's way or a padded sort."""

from itertools import product
from typing import Any

from permlab.platform.bench.machine import caption, facts
from permlab.platform.bench.settings import MapsBench
from permlab.platform.bench.sizes import sizes_of
from permlab.platform.bench.tables import new_table, print_table, to
from permlab.platform.bench.worker import Worker
from permlab.platform.display.console import out, progress_bar

MUCH = 5  # times as long as ordering


def measure(bench: MapsBench) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    cells = list(product(dict.fromkeys(["ordering", *bench.method]), bench.d))
    with Worker(bench.threads) as worker, progress_bar("bench maps", "cells") as report:
        worker.call("maps_cell.start")
        for done, (method, d) in enumerate(cells):
            report(done, len(cells))
            timings = worker.call("maps_cell.compare", method=method, d=d, repeats=bench.repeats)
            rows.append({"method": method, "d": d} | timings)
    ordering = {row["d"]: row["ours"]["ms"] for row in rows if row["method"] == "ordering"}
    for row in rows:
        if "ours" in row:
            other = row.get("pyg") or row.get("padded")
            row |= {"of_ordering": row["ours"]["ms"] / ordering[row["d"]]}
            row |= {"other_ratio": other["ms"] / row["ours"]["ms"] if other else None}
    sizes = sizes_of("proteins")
    batch = {"graphs": len(sizes), "nodes": sum(sizes), "largest": max(sizes)}
    return {
        "bench": "maps",
        "machine": facts(bench.threads),
        "settings": bench.model_dump(),
        "batch": batch,
        "rows": rows,
    }


def show(result: dict[str, Any]) -> None:
    table = new_table(
        ("readout",), ("d", "m", "ours, ms", "spread", "forward", "of ordering", "PyG, ms", "padded, ms", "ratio")
    )
    refused, slow = {}, {}
    for row in result["rows"]:
        if "refused" in row:
            refused[row["method"], row["d"]] = row["refused"]
            continue
        ours = row["ours"]
        cells = [f"{ours['ms']:.2f}", to(ours["range"], 2), f"{ours['forward_ms']:.2f}", f"{row['of_ordering']:.1f}×"]
        cells += [f"{row[side]['ms']:.2f}" if side in row else "–" for side in ("pyg", "padded")]
        cells.append(f"{row['other_ratio']:.1f}×" if row["other_ratio"] else "–")
        table.add_row(row["method"], str(row["d"]), f"{row['m']:,}", *cells)
        if row["of_ordering"] > MUCH:
            slow[row["method"]] = row["cost"]
    print_table(table)
    batch = result["batch"]
    out.print(
        f"{batch['graphs']} graphs, {batch['nodes']:,} nodes, the largest {batch['largest']}. Forward and backward, "
        f"medians of {result['settings']['repeats']} measurements in turn. {caption(result['machine'])}; "
        f"load {result['machine']['load']} at the end.\nratio: PyG's way or the padded sort to ours. "
        "Row readouts return rows.",
        markup=False,
    )
    if slow:
        out.print(f"\nMore than {MUCH}× the time of ordering, whose cost is D·n·log n + n·d·D, because of their cost:")
        for method, cost in slow.items():
            out.print(f"  {method}: {cost}", markup=False)
    if refused:
        out.print("\nNot built at this size:")
        for (method, d), reason in refused.items():
            out.print(f"  {method}, d = {d}: {reason}", markup=False)
