"""The paper's tables: one per data set, metric and d; methods across, splits down, the paper's number under ours."""

from typing import Any

import pandas as pd

from permlab.platform.report.blocks import Block, Entry, Section, Table
from permlab.platform.report.findings import Findings, Number
from permlab.platform.report.recipe import differences
from permlab.platform.report.statistics import LEAST_SEEDS
from permlab.platform.report.stored import SPLITS, one_of
from permlab.tasks.metrics import higher_is_better, metric_label

PRETTY = {"proteins_full": "PROTEINS_full", "qm9": "QM9"}


def tables_section(findings: Findings) -> Section:
    several = any(number.estimate.half_width is not None for number in findings.numbers.values())
    means = (
        f"Mean ± 95 % interval over {findings.sweep.units} (Student's t)."
        if several
        else f"Values of one {one_of(findings.sweep.units)} each, without intervals."
    )
    blocks: list[Block] = [f"{means} {_bold(findings)}"]
    if any(number.paper is not None for number in findings.numbers.values()):
        blocks.append(
            "Small print: the paper's number, a single run; ✓ it lies where one more run of ours would fall 95 times "
            "in 100, ✗ it does not; without a mark there is no such interval."
        )
        if any(differences(findings.sweep, dataset) for dataset in findings.sweep.datasets):
            blocks.append("The paper's numbers come from another recipe; what differs is listed at the top.")
    blocks += [text for dataset in findings.sweep.datasets if (text := permuted_sentence(findings, dataset))]
    return Section("tables", "Tables", [*blocks, *paper_tables(findings)])


def _bold(findings: Findings) -> str:
    if not findings.testable:
        return f"Nothing is bold: {findings.why_no_test()} A difference may well be luck."
    return (
        f"Bold: among the methods with at least {LEAST_SEEDS} {findings.sweep.units} the best mean, and every method "
        "that does not differ significantly from it. Training rows are not tested and have no bold."
    )


def permuted_sentence(findings: Findings, dataset: str) -> str:
    """Stands for rows, panels and columns that would repeat others; empty if they do not."""
    if len(findings.splits(dataset)) == len(findings.sweep.splits(dataset)):
        return ""
    return (
        f"{pretty(dataset)}: with permuted nodes every metric of every method is that of the holdout, to the digits "
        "shown, so it has no rows and no panels of its own."
    )


def paper_tables(findings: Findings) -> list[Table]:
    sweep, tables = findings.sweep, []
    for dataset in sweep.datasets:
        for metric in [name for name in sweep.metrics(dataset) if name != "loss"]:
            for d in sweep.widths(dataset):
                rows: list[list[Entry | str]] = []
                for split in findings.splits(dataset):
                    numbers = [findings.numbers.get(((dataset, d, split, metric), m)) for m in sweep.methods]
                    rows.append([SPLITS[split], *(entry(number) for number in numbers)])
                better = "higher" if higher_is_better(metric) else "lower"
                title = f"{pretty(dataset)}, {metric_label(metric)}, d = {d} ({better} is better)"
                label = f"{slug(dataset)}-{slug(metric)}-d{d}"
                tables.append(Table(title, ["", *sweep.methods], rows, label=label))
    return tables


def entry(number: Number | None) -> Entry:
    if number is None:
        return Entry("–")
    note = ""
    if number.paper is not None:
        mark = {True: " ✓", False: " ✗", None: ""}[number.inside]
        note = f"paper {number.paper:.3f}{mark}"
    return Entry(str(number.estimate), number.best or number.tied, note, number.inside)


def slug(name: str) -> str:
    """A name as part of a file's name or a label."""
    return "".join(letter if letter.isalnum() else "-" for letter in name)


def signed(value: float, digits: int = 3) -> str:
    """With its sign, but zero as 0.000."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def pretty(dataset: str) -> str:
    return PRETTY.get(dataset, dataset)


def numbers_frame(findings: Findings) -> pd.DataFrame:
    """Everything in the tables, one row per number: tables.csv and tables.parquet."""
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
                "half_width_one_more_run": number.prediction,
                "paper_inside": number.inside,
            }
        )
    return pd.DataFrame(rows)


def tests_frame(findings: Findings) -> pd.DataFrame:
    """Every paired test, one row each: tests.csv."""
    names = {True: "paired t on one split", False: "Nadeau and Bengio's corrected t"}
    rows = [
        dict(zip(("dataset", "d", "split", "metric"), place, strict=True))
        | {
            "test": names[findings.one_split(place[0])],
            "first": comparison.first,
            "second": comparison.second,
            "seeds": comparison.test.seeds,
            "difference": comparison.test.difference,
            "t": comparison.test.t,
            "p": comparison.test.p,
            "p_holm": comparison.p_holm,
            "hedges_g": comparison.test.g,
        }
        for place, comparisons in findings.comparisons.items()
        for comparison in comparisons
    ]
    return pd.DataFrame(rows)
