"""The readouts' certificates, measured on the trained embeddings of the holdout."""

import pandas as pd

from permlab.platform.report.blocks import Block, Figure, Panel, Section, Series
from permlab.platform.report.findings import Findings
from permlab.platform.report.tables import pretty, slug

GAP = "certificate/gap"  # older runs have none
ROUNDING = 1e-6  # relative errors above it are the readout's doing
ERROR = "certificate/invariance_error"
HOW = (
    "Measured at the end of every run on graphs of its holdout, with its final weights. Invariance error: the largest "
    "‖φ(Γ(πG)) − φ(Γ(G))‖ / ‖φ(Γ(G))‖ over up to 64 graphs, nodes permuted in the data, each graph by itself; about "
    "1e-15 is rounding in double precision. Batch error: how far φ of a graph moves when it is pooled with the others. "
    "Lipschitz ratios: ‖φ(X) − φ(Y)‖ / d(X, Y) over up to 64 pairs of graphs of one size, d(X, Y) the distance up to a "
    "permutation. Ratios of readouts with different scales cannot be compared; what counts is how far the smallest "
    "lies below the largest. They are measured on real graphs and do not prove a bound. Smallest gap: the smallest "
    "‖φ(X) − φ(Y)‖ over pairs of up to 200 different graphs, divided by the median one; 0: two graphs have one image."
)


def trained_section(findings: Findings) -> Section:
    blocks: list[Block] = []
    for dataset in findings.sweep.datasets:
        figure = _figure(findings, dataset)
        blocks += [figure] if figure else []
    if not blocks:
        return Section("certificates", "Certificates", ["No certificate is stored with these runs."])
    return Section("certificates", "Certificates", [HOW, *blocks])


def verdicts(findings: Findings, dataset: str) -> list[str]:
    """Which trained readouts are not invariant, and which see more than one graph; a line of the summary for each."""
    cells = findings.sweep.finished
    cells = cells[cells["dataset"] == dataset]
    lines = []
    if ERROR in cells and cells[ERROR].notna().any():
        wrong = _beyond_rounding(cells, ERROR)
        lines.append(
            f"Invariance, by the certificates: {f'all but {wrong}' if wrong else 'all methods are invariant'}."
        )
    if "certificate/batch_error" in cells and (wrong := _beyond_rounding(cells, "certificate/batch_error")):
        lines.append(f"The value of a graph depends on the other graphs in its batch: {wrong}.")
    return lines


def _beyond_rounding(cells: pd.DataFrame, error: str) -> str:
    """`identity (error 0.5), …`: the methods with a larger error than rounding, by the largest over their cells."""
    largest = cells.groupby("method")[error].max()
    return ", ".join(f"{method} (error {value:.2g})" for method, value in largest[largest > ROUNDING].items())


def _figure(findings: Findings, dataset: str) -> Figure | None:
    part = findings.sweep.finished
    part = part[part["dataset"] == dataset]
    names = [ERROR, *(f"certificate/ratio_{what}" for what in ("min", "median", "max"))]
    if not set(names) <= set(part.columns) or part[names[0]].isna().all():
        return None
    error, low, middle, high = names
    extremes = {error: "max", low: "min", middle: "median", high: "max"} | ({GAP: "min"} if GAP in part else {})
    worst = part.groupby(["d", "method"]).agg(extremes)
    widths = findings.sweep.widths(dataset)
    errors, ratios, gaps, spoken = [], [], [], []
    for d in widths:
        rows = [(method, worst.loc[(d, method)]) for method in findings.sweep.methods if (d, method) in worst.index]
        errors.append(
            Panel(
                f"d = {d}, invariance error",
                "largest error",
                "",
                [Series(method, [float(row[error])], [0.0], line=False) for method, row in rows],
                "rows",
                x_log=True,
            )
        )
        ratios.append(
            Panel(
                f"d = {d}, Lipschitz ratios",
                "smallest, median, largest ratio",
                "",
                [_ratios(method, row[low], row[middle], row[high]) for method, row in rows if pd.notna(row[high])],
                "rows",
                x_log=True,
            )
        )
        with_gap = [(method, row[GAP]) for method, row in rows if pd.notna(row.get(GAP))]
        gaps.append(
            Panel(
                f"d = {d}, smallest gap",
                "smallest over median distance of two images",
                "",
                [Series(method, [float(gap)], [0.0], line=False) for method, gap in with_gap],
                "rows",
                x_log=True,
            )
        )
        spoken += [
            f"{method} at d = {d}: error {row[error]:.1e}, ratios {row[low]:.3g} to {row[high]:.3g}"
            + (f", smallest gap {row[GAP]:.2g}" if pd.notna(row.get(GAP)) else "")
            for method, row in rows
        ]
    title = f"{pretty(dataset)}: trained readouts"
    panels = [panel for panel in (*errors, *ratios, *gaps) if panel.series]
    exact = any(0.0 in (*series.x, *series.low) for panel in panels for series in panel.series)
    caption = (
        f"Extremes over {findings.sweep.runs_of(dataset)}."
        + " What is exactly zero stands at 0, left of the logarithmic axis." * exact
    )
    return Figure(
        f"certificates-{slug(dataset)}", title, f"{title}. {'; '.join(spoken)}.", panels, min(len(widths), 4), caption
    )


def _ratios(method: str, low: float, middle: float, high: float) -> Series:
    return Series(method, [float(middle)], [0.0], [float(low)], [float(high)], line=False)
