"""What a sweep's own run says in MLflow: means of the headline metric, and a description with the results."""

import csv
import re
from collections.abc import Collection
from pathlib import Path

NOTE = "mlflow.note.content"  # the tag that holds a run's description
REPORT = "permlab.report"  # the tag that says which artifact is the report
LONGEST = 4500  # characters of the table: MLflow's servers allow 5,000 in a tag
SWEEP = "whole_sweep"
NO_REPORT, LINK = "No report yet", "[Report]"


def mean_metrics(folder: Path, metrics: Collection[str]) -> dict[str, float]:
    """Means over seeds, as `whole_sweep/holdout_mae/sum-d10`; with the data set if there are several."""
    path = folder / "results.csv"
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] in metrics]
    rows = [row for row in rows if row["split"] != "train"] or rows  # the training graphs, if nothing else was measured
    several = len({row["dataset"] for row in rows}) > 1
    means = {}
    for row in rows:
        cells = f"{row['method']}-d{row['d']}" + f" {row['dataset']}" * several
        means[f"{SWEEP}/{row['split']}_{row['metric']}/{re.sub(r'[^A-Za-z0-9_. -]', '_', cells)}"] = float(row["mean"])
    return means


def describe(folder: Path, report: str | None) -> str:
    """Where the report is, and the table of results as Markdown. MLflow folds all but the first lines."""
    path = folder / "results.md"
    table = path.read_text().strip() if path.exists() else ""
    if len(table) > LONGEST:
        table = table[:LONGEST].rpartition("\n")[0] + "\n\nThe other rows are in the artifact results.md."
    heading = "Mean over seeds ± half the width of its 95 % interval.\n\n" if table else ""
    return with_report(heading + table, report or f"{NO_REPORT}: `permlab report {folder.name}` writes it.")


def with_report(note: str, line: str) -> str:
    """The description with this line about the report, first, instead of an earlier one."""
    paragraphs = note.split("\n\n")
    if paragraphs[0].startswith((NO_REPORT, LINK)):
        paragraphs = paragraphs[1:]
    return "\n\n".join([line, *paragraphs]).strip()


def report_line(experiment_id: str, run_id: str, path: str) -> str:
    place = f"#/experiments/{experiment_id}/runs/{run_id}/artifacts/{path}?workflowType=machine_learning"
    return f"{LINK}({place}): tables, figures and tests"
