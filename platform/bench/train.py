"""Training through `permlab train` beside a plain PyG + Lightning script: the same model, graphs and optimiser.

Two workers on one core, one a side, are asked in turn. Every measurement is a run of its own: an epoch to warm up, then
whole epochs of about `steps` steps, evaluation and checkpoints left out on both sides.
"""

import statistics
import tempfile
from itertools import product
from typing import Any

from permlab.platform.bench.machine import caption, facts
from permlab.platform.bench.settings import TrainBench
from permlab.platform.bench.tables import new_table, print_table, spread, to
from permlab.platform.bench.worker import Worker
from permlab.platform.console import out, progress_bar
from permlab.platform.errors import RunError
from permlab.platform.plan import manifest_of

TOLERANCE = 1e-3  # of the losses at the same weights, relative: features are raw, some are in the hundreds


def measure(bench: TrainBench) -> dict[str, Any]:
    from permlab.platform.building import build_if_missing

    cells = list(product(bench.dataset, bench.method, bench.d))
    for dataset in bench.dataset:
        build_if_missing(dataset)
    machine = facts(bench.threads)
    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="permlab-bench-") as folder,
        Worker(bench.threads) as ours,
        Worker(bench.threads) as plain,
        progress_bar("bench train", "cells") as report,
    ):
        machine |= ours.call("machine.limits")
        runs = [_run(bench, folder, *cell) for cell in cells]
        compared = [_same_loss(plain, run) for run in runs]  # before any is timed
        for done, (run, found) in enumerate(zip(runs, compared, strict=True)):
            report(done, len(cells))
            name = {key: run[key] for key in ("dataset", "method", "d")}
            rows.append(name | _cell(bench, run, found, ours, plain, machine))
    return {"bench": "train", "machine": machine, "settings": bench.model_dump(), "rows": rows}


def _run(bench: TrainBench, folder: str, dataset: str, method: str, d: int) -> dict[str, Any]:
    """The settings of a cell's run."""
    manifest = manifest_of(dataset)
    holdout = manifest.holdout
    held_out = holdout if isinstance(holdout, int) else round(holdout * manifest.graphs)
    return bench.cell(dataset, method, d, manifest.graphs, held_out, folder).model_dump(mode="json")


def _same_loss(plain: Worker, run: dict[str, Any]) -> dict[str, Any]:
    """Both losses at the same weights, and the work of a step; only sort may differ, where PyG leaves ties."""
    found = plain.call("train_cell.compare", cell=run)
    found["difference"] = abs(found["loss"] - found["plain_loss"]) / max(abs(found["plain_loss"]), 1e-9)
    if not found["difference"] < TOLERANCE and run["method"] != "sort":
        losses = f"{found['loss']} and {found['plain_loss']}"
        raise RunError(f"{run['dataset']} {run['method']} d={run['d']}: the losses at the same weights are {losses}")
    return found


def _cell(
    bench: TrainBench,
    cell: dict[str, Any],
    found: dict[str, Any],
    ours: Worker,
    plain: Worker,
    machine: dict[str, Any],
) -> dict[str, Any]:
    epochs = max(1, round(bench.steps / found["steps_an_epoch"]))
    steps = epochs * found["steps_an_epoch"]
    times: dict[str, list[float]] = {"ours": [], "plain": []}
    for _ in range(bench.repeats):
        times["ours"].append(1000 * ours.call("train_cell.ours", cell=cell, epochs=epochs) / steps)
        times["plain"].append(1000 * plain.call("train_cell.plain", cell=cell, epochs=epochs) / steps)
    ours.call("train_cell.forget", folder=cell["runs"])
    seconds = statistics.median(times["ours"]) / 1000
    return {
        "steps": steps,
        "ours_ms": statistics.median(times["ours"]),
        "ours_range": spread(times["ours"]),
        "plain_ms": statistics.median(times["plain"]),
        "plain_range": spread(times["plain"]),
        "ratio": statistics.median(times["plain"]) / statistics.median(times["ours"]),
        "ratio_range": spread([b / a for a, b in zip(times["ours"], times["plain"], strict=True)]),
        "loss": found["loss"],
        "plain_loss": found["plain_loss"],
        "loss_difference": found["difference"],
        "parameters": found["parameters"],
        "mflop": found["flops"] / 1e6,
        "gemm_share": found["flops"] / seconds / (1e9 * machine["gemm_gflops"]),
        "mb": found["bytes"] / 1e6,
        "copy_share": found["bytes"] / seconds / (1e9 * machine["copy_gb_s"]),
    }


def show(result: dict[str, Any]) -> None:
    speed = new_table(("data set", "method"), ("d", "ours, ms", "spread", "PyG, ms", "spread", "ratio", "spread"))
    limit = new_table(("data set", "method"), ("d", "MFLOP", "of GEMM", "MB", "of copy", "parameters", "Δ loss"))
    for row in result["rows"]:
        name = (row["dataset"], row["method"], str(row["d"]))
        times = [text for side in ("ours", "plain") for text in (f"{row[f'{side}_ms']:.1f}", to(row[f"{side}_range"]))]
        speed.add_row(*name, *times, f"{row['ratio']:.1f}×", to(row["ratio_range"]))
        flops, traffic = f"{row['mflop']:.0f}", f"{row['mb']:.0f}"
        shares = (flops, f"{row['gemm_share']:.0%}", traffic, f"{row['copy_share']:.0%}")
        limit.add_row(*name, *shares, f"{row['parameters']:,}", f"{row['loss_difference']:.0e}")
    settings, machine = result["settings"], result["machine"]
    print_table(speed)
    out.print(
        f"A training step, batch {settings['batch_size']}; medians of {settings['repeats']} runs in turn. "
        f"{caption(machine)}; load {machine['load']} when it began.\n",
        markup=False,
    )
    print_table(limit)
    out.print(
        "MFLOP a step: products of matrices, padding left out, from shapes; a GEMM reaches "
        f"{machine['gemm_gflops']:.0f} GFLOP/s here.\nWhat is worked out before the last layer need "
        "not be done behind it: a share may pass 100 %.\n"
        "MB a step: traffic if nothing stayed in a cache; a copy reaches "
        f"{machine['copy_gb_s']:.1f} GB/s.\nΔ loss: at the same weights, relative; PyG sorts ties in another way.",
        markup=False,
    )
