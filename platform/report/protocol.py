"""Which protocol made these results, and the published results of the same protocol beside them."""

import csv
from functools import cache
from pathlib import Path
from statistics import fmean, stdev

from permlab.platform.report.blocks import Block, Entry, Section, Table
from permlab.platform.report.findings import Findings
from permlab.platform.report.stored import SPLITS
from permlab.platform.report.tables import pretty
from permlab.platform.settings.protocols import PROTOCOLS
from permlab.tasks.metrics import higher_is_better, metric_label

PUBLISHED = Path(__file__).parent / "published.csv"  # of "A Fair Comparison of …", and of OGB's leaderboard
UNEVEN = "Folds or seeds are missing in some rows, so these means are not of the same graphs."


@cache
def published() -> list[dict[str, str]]:
    with PUBLISHED.open() as file:
        return list(csv.DictReader(file))


def protocol_section(findings: Findings) -> Section | None:
    """None for the paper's protocol, which needs no words."""
    sweep = findings.sweep
    if sweep.protocol not in PROTOCOLS:
        return None
    blocks: list[Block] = [PROTOCOLS[sweep.protocol].told]
    for dataset in sweep.datasets:
        blocks += _tables(findings, dataset)
    return Section("protocol", f"Protocol: {sweep.protocol}", blocks)


def _tables(findings: Findings, dataset: str) -> list[Block]:
    """Per d: mean ± standard deviation, ours and the published ones, the best first."""
    sweep = findings.sweep
    name = dataset.partition(",")[0]
    theirs = [row for row in published() if (row["dataset"], row["protocol"]) == (name, sweep.protocol)]
    metric = theirs[0]["metric"] if theirs else sweep.headline(dataset)
    tables: list[Block] = []
    for d in sweep.widths(dataset):
        table = findings.by_place.get((dataset, d, "holdout", metric or ""))
        if table is None or metric is None:
            continue
        ours = {method: table[method].dropna().tolist() for method in table.columns}
        numbers = [(method, fmean(values), _deviation(values), str(len(values))) for method, values in ours.items()]
        numbers += [(f"{row['method']}, published", float(row["mean"]), float(row["deviation"]), "–") for row in theirs]
        numbers.sort(key=lambda row: row[1], reverse=higher_is_better(metric))
        rows: list[list[Entry | str]] = [
            [name, f"{mean:.3f}" + (f" ± {deviation:.3f}" if deviation is not None else ""), count]
            for name, mean, deviation, count in numbers
        ]
        unit = sweep.unit(dataset)
        title = f"{pretty(dataset)}, d = {d}: {SPLITS['holdout']} {metric_label(metric)}, mean ± standard deviation"
        tables.append(Table(f"{title} over {unit}", ["method", metric_label(metric), unit], rows))
        if theirs:
            tables.append(f"The published results have {theirs[0]['note']}.")
        if len({len(values) for values in ours.values()}) > 1:
            tables.append(UNEVEN)
    return tables


def _deviation(values: list[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None
