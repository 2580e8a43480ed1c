"""All methods at a glance, the paper beside them."""

from permlab.platform.report.blocks import Figure, Panel, Series
from permlab.platform.report.epochs import slug
from permlab.platform.report.findings import Findings
from permlab.platform.report.stored import SPLITS
from permlab.platform.report.tables import pretty
from permlab.tasks.metrics import metric_label


def beside_the_paper(findings: Findings, dataset: str) -> Figure | None:
    """The headline metric on the holdout, one row per method: our mean and interval, the paper's number hollow."""
    sweep, metric = findings.sweep, findings.sweep.headline(dataset)
    split = next((name for name in ("holdout", "validation") if name in sweep.splits(dataset)), None)
    panels, spoken = [], []
    for d in sweep.widths(dataset):
        series = []
        for method in sweep.methods:
            number = findings.numbers.get(((dataset, d, split or "", metric or ""), method))
            if number is None:
                continue
            mean, half = number.estimate.mean, number.estimate.half_width or 0.0
            series.append(Series(method, [mean], [0.0], [mean - half], [mean + half], ["ours"], line=False))
            said = f"{method} {mean:.3f}"
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
    caption = "Means and 95 % intervals over seeds." + (
        " Hollow: the paper's number, a single run by another recipe (see above)." if hollow else ""
    )
    alt = f"{title}: {'; '.join(spoken)}."
    return Figure(f"overview-{slug(dataset)}", title, alt, panels, min(len(panels), 4), caption)
