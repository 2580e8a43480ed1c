"""Loss and metrics over epochs, as in the paper's figures: three splits, all methods in one plot, d side by side."""

import numpy as np
import pandas as pd

from permlab.platform.report.blocks import Block, Figure, Panel, Section, Series
from permlab.platform.report.findings import Findings
from permlab.platform.report.stored import SPLITS, one_of
from permlab.platform.report.tables import pretty, slug
from permlab.tasks.metrics import metric_label

POINTS = 100  # at most, per curve
FEW = 12  # epochs that are ticks of their own, at most


def epochs_section(findings: Findings) -> Section:
    sweep = findings.sweep
    blocks: list[Block] = []
    for dataset in sweep.datasets if len(sweep.histories) else ():
        curves = mean_curves(findings, dataset)
        for metric in sweep.metrics(dataset):
            figure = _figure(findings, dataset, metric, curves)
            blocks += [figure] if figure else []
    if not blocks:
        blocks.append("No finished cell has more than one evaluated epoch yet.")
    return Section("epochs", "Over epochs", blocks)


def mean_curves(findings: Findings, dataset: str) -> pd.DataFrame:
    """Mean and standard deviation over runs: rows (d, method, epoch), columns (split/metric, mean | std)."""
    cells = findings.sweep.finished
    cells = cells.loc[cells["dataset"] == dataset, ["key", "d", "method"]]
    rows = findings.sweep.histories.merge(cells, on="key").drop(columns="key")
    return rows.groupby(["d", "method", "epoch"]).agg(["mean", "std"]).sort_index()


def _figure(findings: Findings, dataset: str, metric: str, curves: pd.DataFrame) -> Figure | None:
    sweep, thinned = findings.sweep, False
    panels, spoken = [], []
    widths, same = sweep.widths(dataset), findings.unchanged(dataset)
    label = metric_label(metric)
    for split in findings.splits(dataset):
        name = f"{split}/{metric}"
        for d in widths:
            series = []
            for method in [name for name in sweep.methods if split != "holdout_perm" or name not in same]:
                if (d, method) in curves.index and name in curves:
                    part = curves.loc[(d, method), name].dropna(subset="mean")
                    shown = part.iloc[thin(len(part))]
                    thinned |= len(shown) < len(part)
                    if len(part) > 1:
                        series.append(_curve(method, shown))
            if series:
                title = f"d = {d}, {SPLITS[split]}"
                epochs = sorted({epoch for line in series for epoch in line.x})
                ticks = epochs if len(epochs) <= FEW else []
                panels.append(Panel(title, "epoch", label, series, y_log=metric == "loss", share=split, x_ticks=ticks))
                spoken.append(f"{title}: " + ", ".join(f"{line.method} {line.y[-1]:.3f}" for line in series))
    if not panels:
        return None
    bands = any(line.low for panel in panels for line in panel.series)
    means = f"Lines are means over {sweep.runs_of(dataset)}, bands one standard deviation."
    caption = means if bands else f"Lines are of one {one_of(sweep.unit(dataset))} each."
    caption += f" Curves are thinned to {POINTS} epochs." if thinned else ""
    if same and "holdout_perm" in findings.splits(dataset):
        caption += f" With permuted nodes {', '.join(same)} {'are' if len(same) > 1 else 'is'} as on the holdout."
    alt = f"{pretty(dataset)}, {label} over epochs. At the end, {'; '.join(spoken)}."
    title = f"{pretty(dataset)}: {label} over epochs"
    return Figure(f"epochs-{slug(dataset)}-{metric}", title, alt, panels, min(len(widths), 4), caption)


def _curve(method: str, part: pd.DataFrame) -> Series:
    mean, std = part["mean"].to_numpy(float), part["std"].to_numpy(float)
    several = not np.isnan(std).all()  # with one run there is no band
    low, high = (mean - np.nan_to_num(std), mean + np.nan_to_num(std)) if several else (np.array([]), np.array([]))
    return Series(method, part.index.tolist(), mean.tolist(), low.tolist(), high.tolist(), markers=False)


def thin(count: int) -> np.ndarray:
    """Indices of at most POINTS epochs, evenly spread, first and last included."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(int)) if count else np.zeros(0, int)
