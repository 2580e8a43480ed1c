"""All methods at a glance, the paper beside them."""

from permlab.platform.report.blocks import Figure, Panel, Series
from permlab.platform.report.findings import Findings
from permlab.platform.report.results import Estimate
from permlab.platform.report.stored import SPLITS, one_of
from permlab.platform.report.tables import pretty, slug
from permlab.tasks.metrics import metric_label


def beside_the_paper(findings: Findings, dataset: str) -> Figure | None:
    """The headline metric on the holdout, one row per method: our mean and interval, the paper's number hollow."""
    sweep, metric = findings.sweep, findings.sweep.headline(dataset)
    split = sweep.judged_by(dataset)
    panels, spoken = [], []
    for d in sweep.widths(dataset):
        series = []
        for method in sweep.methods:
            number = findings.numbers.get(((dataset, d, split or "", metric or ""), method))
            if number is None:
                continue
            series.append(row(method, number.estimate, "ours"))
            said = f"{method} {number.estimate.mean:.3f}"
            if number.paper is not None:
                series.append(Series(method, [number.paper], [0.0], labels=["paper"], line=False, hollow=True))
                said += f" (paper {number.paper:.3f})"
            spoken.append(f"{said}, d = {d}")
        if series:
            label = metric_label(metric or "")
            panels.append(Panel(f"d = {d}", f"{SPLITS[split or '']} {label}", "", series, "rows", share="all"))
    if not panels:
        return None
    title = f"{pretty(dataset)}: {panels[0].x_label}"
    hollow = any(s.hollow for panel in panels for s in panel.series)
    bars = any(s.low for panel in panels for s in panel.series)
    unit = sweep.unit(dataset)
    caption = (
        f"Means and 95 % intervals over {unit}." if bars else f"One {one_of(unit)} each, so there are no intervals."
    )
    caption += " Hollow: the paper's number, a single run by another recipe (see above)." if hollow else ""
    alt = f"{title}: {'; '.join(spoken)}."
    return Figure(f"overview-{slug(dataset)}", title, alt, panels, min(len(panels), 4), caption)


def row(method: str, estimate: Estimate, label: str = "") -> Series:
    """The estimate in a row of its method, with its interval if it has one."""
    mean, half = estimate.mean, estimate.half_width
    ends = ([mean - half], [mean + half]) if half is not None else ([], [])
    return Series(method, [mean], [0.0], *ends, [label] if label else [], line=False)
