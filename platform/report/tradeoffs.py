"""What the paper does not show: quality against d, the cost of permuted nodes, and what quality costs."""

import pandas as pd

from permlab.platform.report.blocks import Block, Figure, Panel, Section, Series
from permlab.platform.report.findings import Findings
from permlab.platform.report.overview import row
from permlab.platform.report.results import Estimate
from permlab.platform.report.stored import SPLITS, one_of
from permlab.platform.report.tables import pretty, signed, slug
from permlab.tasks.metrics import higher_is_better, metric_label


def beyond_section(findings: Findings) -> Section:
    blocks: list[Block] = []
    for dataset in findings.sweep.datasets:
        for make in (width_figure, gap_figure, cost_figure):
            figure = make(findings, dataset)
            blocks += [figure] if figure else []
    return Section("beyond", "Beyond the paper", blocks or ["There is nothing to draw yet."])


def width_figure(findings: Findings, dataset: str) -> Figure | None:
    """The headline metric against d, one panel per split."""
    sweep, metric = findings.sweep, findings.sweep.headline(dataset)
    widths = sweep.widths(dataset)
    if metric is None or len(widths) < 2:
        return None
    panels, spoken = [], []
    for split in findings.splits(dataset):
        series = []
        for method in sweep.methods:
            places = [((dataset, d, split, metric), method) for d in widths]
            points = [(place[0][1], findings.numbers[place].estimate) for place in places if place in findings.numbers]
            if points:
                series.append(_bars(method, [float(d) for d, _ in points], [estimate for _, estimate in points]))
        label = metric_label(metric)
        panels.append(Panel(SPLITS[split], "d", label, series, x_log=True, share="all", x_ticks=[*map(float, widths)]))
        spoken.append(f"{SPLITS[split]}: " + "; ".join(f"{s.method} {_list(s.y)}" for s in series))
    title = f"{pretty(dataset)}: {metric_label(metric)} against d"
    alt = f"{title}, d = {', '.join(map(str, widths))}. {'. '.join(spoken)}."
    return Figure(f"width-{slug(dataset)}", title, alt, panels, len(panels), bars_told(panels, sweep.unit(dataset)))


def gap_figure(findings: Findings, dataset: str) -> Figure | None:
    """How much of the headline metric is lost when the holdout's nodes are permuted, seed by seed or fold by fold."""
    sweep, metric = findings.sweep, findings.sweep.headline(dataset)
    panels, spoken, same = [], [], findings.unchanged(dataset)
    for d in sweep.widths(dataset):
        plain, permuted = (findings.by_place.get((dataset, d, s, metric or "")) for s in ("holdout", "holdout_perm"))
        if plain is None or permuted is None:
            continue
        loss = (plain - permuted) if higher_is_better(metric) else (permuted - plain)
        estimates = {name: Estimate.of(loss[name].dropna().tolist()) for name in loss.columns if name not in same}
        estimates = {name: estimate for name, estimate in estimates.items() if estimate.seeds}
        series = [row(method, estimate) for method, estimate in estimates.items()]
        if not series:
            continue
        spoken += [f"{method} {signed(estimate.mean)} at d = {d}" for method, estimate in estimates.items()]
        label = f"{metric_label(metric or '')} {'lost' if higher_is_better(metric) else 'added'}"
        panels.append(Panel(f"d = {d}", label, "", series, "rows", zero_line=True))
    if not panels:
        return None
    title = f"{pretty(dataset)}: what permuted nodes cost"
    caption = "Holdout against the same holdout with every graph's nodes permuted."
    if same:
        caption += f" Not drawn, because it changes nothing for them: {', '.join(same)}."
    return Figure(f"gap-{slug(dataset)}", title, f"{title}: {', '.join(spoken)}.", panels, min(len(panels), 4), caption)


def cost_figure(findings: Findings, dataset: str) -> Figure | None:
    """The headline metric on the holdout against seconds and parameters; one point per method and d."""
    sweep, metric = findings.sweep, findings.sweep.headline(dataset)
    split = next((name for name in ("holdout", "validation") if name in sweep.splits(dataset)), None)
    part = sweep.finished[sweep.finished["dataset"] == dataset]
    if metric is None or split is None or "cost/seconds" not in part:
        return None
    costs = part.groupby(["method", "d"])[["cost/seconds", "cost/parameters"]].median()
    label = f"{SPLITS[split]} {metric_label(metric)}"
    panels = []
    for column, name in (("cost/seconds", "seconds per cell (median)"), ("cost/parameters", "parameters")):
        series = []
        for method in sweep.methods:
            points = [(d, costs[column].get((method, d))) for d in sweep.widths(dataset)]
            places = {d: ((dataset, d, split, metric), method) for d, _ in points}
            kept = [
                (d, float(cost)) for d, cost in points if pd.notna(cost) and cost > 0 and places[d] in findings.numbers
            ]
            if kept:
                estimates = [findings.numbers[places[d]].estimate for d, _ in kept]
                series.append(_bars(method, [cost for _, cost in kept], estimates, [f"d = {d}" for d, _ in kept]))
        if series:
            panels.append(Panel(name, name, label, series, x_log=True, share="all"))
    if not panels:
        return None
    title = f"{pretty(dataset)}: cost and quality"
    spoken = "; ".join(f"{s.method} {', '.join(f'{x:.3g}' for x in s.x)}" for s in panels[0].series)
    alt = f"{title}: {label} against seconds and parameters. {panels[0].title}, by d: {spoken}."
    caption = f"One point per method and d{', joined by d' * (len(sweep.widths(dataset)) > 1)}. "
    caption += bars_told(panels, sweep.unit(dataset))
    return Figure(f"cost-{slug(dataset)}", title, alt, panels, 2, caption)


def bars_told(panels: list[Panel], unit: str) -> str:
    bars = any(series.low for panel in panels for series in panel.series)
    return f"Bars are 95 % intervals over {unit}." if bars else f"One {one_of(unit)} each, so there are no intervals."


def _bars(method: str, x: list[float], estimates: list[Estimate], labels: list[str] | None = None) -> Series:
    mean = [estimate.mean for estimate in estimates]
    if all(estimate.half_width is None for estimate in estimates):
        return Series(method, x, mean, labels=labels or [])
    half = [estimate.half_width or 0.0 for estimate in estimates]
    low = [m - h for m, h in zip(mean, half, strict=True)]
    high = [m + h for m, h in zip(mean, half, strict=True)]
    return Series(method, x, mean, low, high, labels or [])


def _list(values: list[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)
