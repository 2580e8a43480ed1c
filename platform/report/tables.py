"""The paper's tables: one a data set, metric and d; methods across, splits down, the paper's number under ours."""

from typing import Any

import pandas as pd

from permlab.platform.report.blocks import Block, Entry, Section, Table
from permlab.platform.report.findings import Findings, Number
from permlab.platform.report.stored import HIGHER_IS_BETTER, METRIC_NAMES, SPLITS

PRETTY = {"proteins_full": "PROTEINS_full", "qm9": "QM9"}


def tables_section(findings: Findings) -> Section:
    blocks: list[Block] = [
        "Mean ± 95 % interval over seeds (Student's t). Bold: the best mean and every method that the corrected "
        "test does not tell from it"
        + (
            "."
            if findings.testable
            else f"; here the best mean alone. {findings.why_no_test()} A difference may well be luck."
        ),
        "Small print: the paper's number, a single run; ✓ it lies inside our interval, ✗ outside.",
    ]
    return Section("tables", "Tables", [*blocks, *paper_tables(findings)])


def paper_tables(findings: Findings) -> list[Table]:
    sweep, tables = findings.sweep, []
    for dataset in sweep.datasets:
        for metric in [name for name in sweep.metrics(dataset) if name != "loss"]:
            for d in sweep.widths(dataset):
                rows: list[list[Entry | str]] = []
                for split in sweep.splits(dataset):
                    numbers = [findings.numbers.get(((dataset, d, split, metric), m)) for m in sweep.methods]
                    rows.append([SPLITS[split], *(entry(number) for number in numbers)])
                better = "higher" if metric in HIGHER_IS_BETTER else "lower"
                title = f"{pretty(dataset)}, {METRIC_NAMES.get(metric, metric)}, d = {d} ({better} is better)"
                tables.append(Table(title, ["", *sweep.methods], rows, latex=True))
    return tables


def entry(number: Number | None) -> Entry:
    if number is None:
        return Entry("–")
    note = ""
    if number.paper is not None:
        mark = {True: " ✓", False: " ✗", None: ""}[number.inside]
        note = f"paper {number.paper:.3f}{mark}"
    return Entry(str(number.estimate), number.best or number.tied, note, number.inside)


def pretty(dataset: str) -> str:
    return PRETTY.get(dataset, dataset)


def numbers_frame(findings: Findings) -> pd.DataFrame:
    """Everything in the tables, a row a number: tables.csv and tables.parquet."""
    rows: list[dict[str, Any]] = []
    for ((dataset, d, split, metric), method), number in findings.numbers.items():
        estimate = number.estimate
        rows.append(
            {
                "dataset": dataset,
                "metric": metric,
                "d": d,
                "split": split,
                "method": method,
                "seeds": estimate.seeds,
                "mean": estimate.mean,
                "half_width_95": estimate.half_width,
                "best": number.best,
                "tied_with_best": number.tied,
                "paper": number.paper,
                "paper_inside": number.inside,
                "half_width_one_more_run": number.prediction,
                "paper_where_one_more_run_may_fall": number.plausible,
            }
        )
    return pd.DataFrame(rows)


def tests_frame(findings: Findings) -> pd.DataFrame:
    """Every paired test, a row each: tests.csv."""
    rows = [
        dict(zip(("dataset", "d", "split", "metric"), place, strict=True))
        | {
            "first": found.first,
            "second": found.second,
            "seeds": found.test.seeds,
            "difference": found.test.difference,
            "t_corrected": found.test.t,
            "p": found.test.p,
            "p_holm": found.p_holm,
            "hedges_g": found.test.g,
        }
        for place, comparisons in findings.comparisons.items()
        for found in comparisons
    ]
    return pd.DataFrame(rows)
