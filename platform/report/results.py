"""A sweep's results: mean and 95 % interval over seeds or folds, the paper's number beside it."""

import csv
import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rich.table import Table

from permlab.platform.report.markdown import escape
from permlab.platform.report.recipe import comparable, phrases
from permlab.platform.report.used import Used, used
from permlab.platform.settings.words import describe
from permlab.platform.sweep.plan import Cell
from permlab.tasks.metrics import headline_of, metric_label

PAPER = Path(__file__).parent / "paper_tables.csv"  # the 336 numbers of the paper's tables, from its appendix


@dataclass(frozen=True)
class Estimate:
    """The mean over seeds and half the width of its 95 % interval (Student's t); no interval with a single seed."""

    mean: float
    half_width: float | None
    seeds: int

    @classmethod
    def of(cls, values: list[float]) -> "Estimate":
        from scipy.special import stdtrit

        if len(values) < 2:
            return cls(mean(values), None, len(values))
        quantile = float(stdtrit(len(values) - 1, 0.975))  # as scipy.stats.t.ppf, whose import takes half a second
        return cls(mean(values), quantile * stdev(values) / math.sqrt(len(values)), len(values))

    def __str__(self) -> str:
        return f"{self.mean:.3f}" if self.half_width is None else f"{self.mean:.3f} ± {self.half_width:.3f}"


Kind = tuple[str, int, str, str, str]  # dataset, d, method, split, metric


def estimates(cells: list[Cell]) -> dict[Kind, Estimate]:
    """Over the finished cells: over seeds, or with several folds over the means of each fold's runs. A metric that is
    NaN in some run is left out there.
    """
    values: dict[Kind, dict[int | None, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        if cell.result:
            for split, metrics in cell.result["metrics"].items():
                for metric, value in metrics.items():
                    if value is not None:
                        kind = (cell.settings.dataset, cell.settings.d, cell.settings.method, split, metric)
                        values[kind][cell.settings.data.fold].append(value)
    return {
        kind: Estimate.of([mean(runs) for runs in folds.values()] if len(folds) > 1 else next(iter(folds.values())))
        for kind, folds in values.items()
    }


@cache
def paper_numbers() -> dict[Kind, float]:
    with PAPER.open() as file:
        rows = list(csv.DictReader(file))
    return {
        (row["dataset"], int(row["d"]), row["method"], row["split"], row["metric"]): float(row["value"]) for row in rows
    }


def headline(estimated: dict[Kind, Estimate]) -> str:
    """The metric that a person looks at first, if it was measured."""
    return headline_of(kind[4] for kind in estimated)


def splits_of(estimated: dict[Kind, Estimate]) -> list[str]:
    present = {kind[3] for kind in estimated}
    return [split for split in ("train", "validation", "holdout", "holdout_perm") if split in present]


def table_rows(cells: list[Cell]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the results: one row per data set, d and method, in the order of the grid."""
    estimated = estimates(cells)
    metric = headline(estimated)
    left_out = {"train"} | ({"holdout_perm"} if same_on_permuted(cells) else set())
    measured = splits_of(estimated)
    splits = [split for split in measured if split not in left_out] or measured  # the training graphs, if alone
    numbers = papers_beside(cells)
    folded = len({cell.settings.data.fold for cell in cells}) > 1
    header = ["data set", "d", "method", "runs" if folded else "seeds"]
    for split in splits:
        header += [f"{split} {metric_label(metric)}", "paper"]
    rows = []
    for dataset, d, method in dict.fromkeys(map(kind_of, cells)):
        seeds = [cell for cell in cells if kind_of(cell) == (dataset, d, method)]
        row = [dataset, str(d), method, f"{sum(cell.result is not None for cell in seeds)} of {len(seeds)}"]
        for split in splits:
            estimate = estimated.get((dataset, d, method, split, metric))
            paper = numbers.get((dataset, d, method, split, metric))
            row += [str(estimate) if estimate else "–", f"{paper:.3f}" if paper is not None else "–"]
        rows.append(row)
    return header, rows


def kind_of(cell: Cell) -> tuple[str, int, str]:
    return cell.settings.dataset, cell.settings.d, cell.settings.method


def same_on_permuted(cells: list[Cell]) -> str:
    """A sentence that stands for a column: with permuted nodes, every method has the value it has on the holdout.
    Empty if some has not, or if nothing was permuted.
    """
    estimated = estimates(cells)
    metric = headline(estimated)
    pairs = [
        (str(estimate), str(estimated.get((*kind[:3], "holdout_perm", metric))))
        for kind, estimate in estimated.items()
        if kind[3:] == ("holdout", metric)
    ]
    if not pairs or any(plain != permuted for plain, permuted in pairs):
        return ""
    return f"With permuted nodes (holdout_perm) every {metric_label(metric)} is the same, to the digits shown."


def other_recipe(cells: list[Cell]) -> str:
    """How these cells differ from the paper's recipe, where its numbers are shown beside them."""
    shown = {kind[0] for kind in papers_beside(cells)} & {kind[0] for kind in estimates(cells)}
    sentences = []
    for dataset in dict.fromkeys(cell.settings.dataset for cell in cells if cell.settings.dataset in shown):
        finished = [cell for cell in cells if cell.settings.dataset == dataset and cell.result]
        held_out = {(cell.result or {}).get("graphs", {}).get("holdout") for cell in finished} - {None}
        told = phrases(_used(finished), dataset, held_out, [cell.settings.method for cell in finished])
        sentences.append(f"{dataset}, not as in the paper: {'; '.join(told)}.")
    return " ".join(sentences)


def papers_beside(cells: list[Cell]) -> dict[Kind, float]:
    """The paper's numbers of the data sets whose cells measure what the paper does."""
    datasets = dict.fromkeys(cell.settings.dataset for cell in cells)
    same = {
        dataset
        for dataset in datasets
        if comparable(_used([cell for cell in cells if cell.settings.dataset == dataset]), dataset)
    }
    return {kind: value for kind, value in paper_numbers().items() if kind[0] in same}


def _used(cells: list[Cell]) -> Used:
    return used((cell.settings.method, cell.settings.d, _as_text(cell)) for cell in cells)


def _as_text(cell: Cell) -> dict[str, str]:
    return {name: str(value) for name, value, _ in describe(type(cell.settings), cell.settings)}


def results_table(cells: list[Cell]) -> Table:
    header, rows = table_rows(cells)
    same = same_on_permuted(cells) or None
    table = Table(box=None, pad_edge=False, header_style="bold", caption=same, caption_justify="left", caption_style="")
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i in (0, 2) else "right")
    for row in rows:
        table.add_row(*row)
    return table


def write_results(cells: list[Cell], folder: Path) -> None:
    """results.csv (means: every metric and split), cells.csv (the same per cell), results.md (what the terminal shows);
    rows are in the order of the cells.
    """
    estimated = estimates(cells)
    numbers = papers_beside(cells)
    means: list[list[Any]] = [
        ["dataset", "d", "method", "split", "metric", "mean", "half_width_95", "seeds", "paper"],
        *(
            [*kind, estimate.mean, estimate.half_width, estimate.seeds, numbers.get(kind)]
            for kind, estimate in estimated.items()
        ),
    ]
    _write_csv(folder / "results.csv", means)
    _write_csv(folder / "cells.csv", _per_cell(cells))
    header, rows = table_rows(cells)
    lines = ["| " + " | ".join(map(escape, cells_)) + " |" for cells_ in (header, ["---"] * len(header), *rows)]
    said = [text for text in (same_on_permuted(cells), other_recipe(cells)) if text]
    (folder / "results.md").write_text("\n\n".join(["\n".join(lines), *said]) + "\n")


def _per_cell(cells: list[Cell]) -> list[list[Any]]:
    """One row per cell, finished or not: what it is, what it took, and its metrics as split/metric."""
    measured = dict.fromkeys(
        (split, metric)
        for cell in cells
        for split, metrics in (cell.result or {}).get("metrics", {}).items()
        for metric in metrics
    )
    facts, costs = ("dataset", "method", "d", "seed"), ("epochs", "seconds", "parameters")
    rows: list[list[Any]] = [["key", *facts, "finished", *costs, *(f"{split}/{metric}" for split, metric in measured)]]
    for cell in cells:
        result = cell.result or {}
        values = [result.get("metrics", {}).get(split, {}).get(metric) for split, metric in measured]
        named = [getattr(cell.settings, name) for name in facts]
        rows.append([cell.key, *named, cell.result is not None, *(result.get(name) for name in costs), *values])
    return rows


def _write_csv(path: Path, rows: list[list[Any]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
