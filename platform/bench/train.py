"""Training with `permlab train` compared with a plain PyG + Lightning script: same model, graphs and optimiser.

Two workers, one per side, share the cores and measure in turn. Each measurement is a separate run: a warm-up epoch,
then whole epochs of about `steps` steps, without evaluation or checkpoints on either side.
"""

import statistics
import tempfile
from typing import Any

from permlab.platform.bench.cells import cells_of, name_of, title_of
from permlab.platform.bench.machine import caption, facts
from permlab.platform.bench.settings import TrainBench
from permlab.platform.bench.tables import averages, new_table, print_table, reasons, spread, to
from permlab.platform.bench.worker import Worker
from permlab.platform.display.console import out, progress_bar
from permlab.platform.errors import RunError

SPEED_COLUMNS = ("d", "engine", "ours, ms", "spread", "PyG, ms", "spread", "ratio", "spread")
TOLERANCE = 1e-3  # relative, of the losses at the same weights; features are raw, some in the hundreds


def measure(bench: TrainBench, environment: dict[str, str] | None = None, title: str = "train") -> dict[str, Any]:
    """Both sides run with `environment` added to their own."""
    machine = facts(bench.threads)
    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="permlab-bench-") as folder,
        Worker(bench.threads, environment) as ours,
        Worker(bench.threads, environment) as plain,
        progress_bar(f"bench {title}", "cells") as report,
    ):
        cells = cells_of(bench, folder)
        machine |= ours.call("machine.limits")
        comparisons = [_same_loss(plain, cell) for cell in cells]  # all are checked before any is timed
        for done, (cell, comparison) in enumerate(zip(cells, comparisons, strict=True)):
            report(done, len(cells))
            rows.append(name_of(cell) | _cell(bench, cell, comparison, ours, plain, machine))
    return {"bench": "train", "machine": machine, "settings": bench.model_dump(), "rows": rows}


def _same_loss(plain: Worker, cell: dict[str, Any]) -> dict[str, Any]:
    """Both losses at the same weights, and the work per step; only sort may differ: PyG orders ties differently."""
    comparison = plain.call("train_cell.compare", cell=cell)
    loss, plain_loss = comparison["loss"], comparison["plain_loss"]
    comparison["difference"] = abs(loss - plain_loss) / max(abs(plain_loss), 1e-9)
    if not comparison["difference"] < TOLERANCE and cell["method"] != "sort":
        losses = f"{loss} (ours) and {plain_loss} (plain)"
        raise RunError(
            f"{title_of(cell)}: the losses at the same weights are {losses}; they may differ by {TOLERANCE:.1%}"
        )
    return comparison


def _cell(
    bench: TrainBench,
    cell: dict[str, Any],
    comparison: dict[str, Any],
    ours: Worker,
    plain: Worker,
    machine: dict[str, Any],
) -> dict[str, Any]:
    epochs = max(1, round(bench.steps / comparison["steps_an_epoch"]))
    steps = epochs * comparison["steps_an_epoch"]
    times: dict[str, list[float]] = {"ours": [], "plain": []}
    for _ in range(bench.repeats):
        run = ours.call("train_cell.ours", cell=cell, epochs=epochs)
        times["ours"].append(1000 * run["seconds"] / steps)
        times["plain"].append(1000 * plain.call("train_cell.plain", cell=cell, epochs=epochs) / steps)
    ours.call("train_cell.forget", folder=cell["runs"])
    seconds = statistics.median(times["ours"]) / 1000
    return {
        "engine": run["engine"],
        "engine_reason": run["engine_reason"],
        "steps": steps,
        "ours_ms": statistics.median(times["ours"]),
        "ours_range": spread(times["ours"]),
        "plain_ms": statistics.median(times["plain"]),
        "plain_range": spread(times["plain"]),
        "ratio": statistics.median(times["plain"]) / statistics.median(times["ours"]),
        "ratio_range": spread([b / a for a, b in zip(times["ours"], times["plain"], strict=True)]),
        "loss": comparison["loss"],
        "plain_loss": comparison["plain_loss"],
        "loss_difference": comparison["difference"],
        "parameters": comparison["parameters"],
        "mflop": comparison["flops"] / 1e6,
        "gemm_share": comparison["flops"] / seconds / (1e9 * machine["gemm_gflops"]),
        "mb": comparison["bytes"] / 1e6,
        "copy_share": comparison["bytes"] / seconds / (1e9 * machine["copy_gb_s"]),
    }


def speed_cells(row: dict[str, Any]) -> list[str]:
    """One row under SPEED_COLUMNS; results of earlier versions do not name the engine."""
    times = [text for side in ("ours", "plain") for text in (f"{row[f'{side}_ms']:.1f}", to(row[f"{side}_range"]))]
    return [str(row["d"]), row.get("engine", "–"), *times, f"{row['ratio']:.1f}×", to(row["ratio_range"])]


def show(result: dict[str, Any]) -> None:
    speed = new_table(("data set", "method"), SPEED_COLUMNS)
    limit = new_table(("data set", "method"), ("d", "MFLOP", "of GEMM", "MB", "of copy", "parameters", "Δ loss"))
    for row in result["rows"]:
        speed.add_row(row["dataset"], row["method"], *speed_cells(row))
        flops, traffic = f"{row['mflop']:.0f}", f"{row['mb']:.0f}"
        shares = (flops, f"{row['gemm_share']:.0%}", traffic, f"{row['copy_share']:.0%}")
        parameters, difference = f"{row['parameters']:,}", f"{row['loss_difference']:.0e}"
        limit.add_row(row["dataset"], row["method"], str(row["d"]), *shares, parameters, difference)
    settings, machine = result["settings"], result["machine"]
    print_table(speed)
    out.print(
        f"A training step, batch {settings['batch_size']}; medians of {settings['repeats']} runs in turn. "
        f"{caption(machine)}; load {machine['load']} at the start.\n"
        f"{reasons(result['rows'])}{averages(result['rows'], 'dataset')}\n",
        markup=False,
    )
    print_table(limit)
    out.print(
        "MFLOP per step: matrix products without padding, counted from shapes; a GEMM reaches "
        f"{machine['gemm_gflops']:.0f} GFLOP/s here.\nSumming first can save part of the counted work, "
        "so a share may exceed 100 %.\n"
        "MB per step: traffic if nothing stayed in a cache; a copy reaches "
        f"{machine['copy_gb_s']:.1f} GB/s.\nΔ loss: at the same weights, relative; PyG orders ties differently.",
        markup=False,
    )
