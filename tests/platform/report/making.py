"""Sweeps for the tests of the report: files as cells write them, with numbers from a seed."""

import json
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import numpy as np

from permlab.platform.files.json_files import write_json
from permlab.platform.report.recipe import recipe_of
from permlab.platform.tracking.store import connect
from permlab.platform.tracking.sweep_delivery import SweepDelivery

LEVEL = {"ordering": 0.74, "kernels": 0.81, "identity": 0.73, "augment": 0.74, "sum": 0.8, "sort": 0.75}
COMMIT, VERSIONS = "c0ffee", {"permlab": "0.1.0", "Python": "3.11.7"}
METRICS = ("loss", "acc", "auc", "ap")
SETTINGS = recipe_of("proteins_full") | {"model.last_activation": "none", "data.split_seed": "None"}


def cell_metrics(method: str, d: int, seed: int, epoch: int) -> dict[str, float]:
    """{split/metric: value}; a seed moves all methods alike, and permuted nodes make identity worse."""
    shared, own = (np.random.default_rng([seed, part]) for part in (1, sum(map(ord, method)) + d))
    level = LEVEL.get(method, 0.7) - 0.1 / epoch + 0.01 * shared.standard_normal() + 0.004 * own.standard_normal()
    lost = 0.08 if method == "identity" else 0.0
    values = {"train": level + 0.05, "holdout": level, "holdout_perm": level - lost}
    return {
        f"{split}/{metric}": 1.2 - value if metric == "loss" else value - 0.02 * METRICS.index(metric)
        for split, value in values.items()
        for metric in METRICS
    }


def make_sweep(
    runs: Path,
    name: str,
    methods: Iterable[str] = ("ordering", "identity", "sum"),
    widths: Iterable[int] = (1, 10),
    seeds: Iterable[int] = range(3),
    failed: Iterable[str] = (),
    waiting: Iterable[str] = (),
    status: str | None = "FINISHED",
    epochs: Iterable[int] = (1, 5, 10, 15, 20),
    dataset: str = "proteins_full",
    engines: dict[str, str] | None = None,
) -> None:
    """`failed` and `waiting` name cells (sum-d10-s0). Without `engines` it is stored as by versions before 7."""
    plan = []
    for method, d, seed in product(methods, widths, seeds):
        key = f"{name}-{method}-d{d}-s{seed}"
        cell = f"{method}-d{d}-s{seed}"
        facts = {"dataset": dataset, "method": method, "d": d, "seed": seed}
        plan.append({"key": key, "name": cell} | facts)
        if cell not in waiting:
            ended = {"failed": cell in failed, "engine": (engines or {}).get(method)}
            write_cell(runs / "cells" / key, cell, facts, list(epochs), **ended)
    folder = runs / "sweeps" / name
    folder.mkdir(parents=True)
    write_json(folder / "plan.json", {"cells": plan})
    write_json(folder / "sweep.json", {"name": name, "params": {}, "started": 1e9, "status": status, "ended": 1e9 + 1})
    SweepDelivery(folder, connect(runs)).advance()


def write_cell(
    folder: Path,
    name: str,
    facts: dict,
    epochs: list[int],
    failed: bool = False,
    engine: str | None = None,
    params: dict[str, str] | None = None,
    fold: int = 0,
) -> None:
    folder.mkdir(parents=True)
    tags = {"permlab.key": folder.name, "git.commit": COMMIT, "versions": json.dumps(VERSIONS)} | {
        key: str(value) for key, value in facts.items()
    }
    data = {"name": facts["dataset"], "digest": "0" * 64, "graphs": 1113}
    run = {"name": name, "experiment": "x", "tags": tags, "params": params or SETTINGS, "dataset": data, "started": 1e9}
    run |= {"model": {"max_nodes": 620}}
    write_json(folder / "run.json", run)
    method, d, seed = facts["method"], facts["d"], facts["seed"] + 100 * fold
    entries = [{"epoch": epoch} | cell_metrics(method, d, seed, epoch) for epoch in epochs]
    (folder / "history.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    if failed:
        write_json(folder / "result.json", {"status": "FAILED", "error": "the loss is nan <in> epoch 7", "ended": 1e9})
        return
    invariant = facts["method"] != "identity"
    certificate = {"invariance_error": 1e-7 if invariant else 0.5, "ratio_min": 0.5, "ratio_median": 1, "ratio_max": 2}
    result = {
        "status": "FINISHED",
        "ended": 1e9,
        "seconds": 10.0 + facts["d"],
        "parameters": 1000 * facts["d"],
        "graphs": {"train": 913, "validation": 0, "holdout": 200},
        "certificate": certificate | {"pairs": 64},
    }
    if engine:
        result["tags"] = {"engine": engine, "numerics": json.dumps([{"engine": engine, "threads": 1}])}
    write_json(folder / "result.json", result)
