"""The ratios of `permlab bench train` as one picture."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from permlab.platform.bench.machine import caption

SHADES = ("#a5d8ff", "#4dabf7", "#1c7ed6", "#0b3d75")
TICKS = (1, 2, 3, 5, 10, 20, 30, 50, 100)


def draw(result: dict[str, Any]) -> Figure:
    """One panel per data set, one group of bars per method, one bar per width d; whiskers from smallest to largest."""
    rows = result["rows"]
    datasets, methods, widths = (list(dict.fromkeys(row[key] for row in rows)) for key in ("dataset", "method", "d"))
    figure, axes = plt.subplots(
        len(datasets), figsize=(9, 2.6 * len(datasets) + 0.7), dpi=150, layout="constrained", sharex=True, squeeze=False
    )
    top = max(row["ratio_range"][1] for row in rows) * 1.35
    bottom = min(1.0, *(row["ratio_range"][0] for row in rows))
    bar = 0.84 / len(widths)
    for axis, dataset in zip(axes[:, 0], datasets, strict=True):
        for index, d in enumerate(widths):
            cells = {row["method"]: row for row in rows if (row["dataset"], row["d"]) == (dataset, d)}
            measured = [(i, cells[method]) for i, method in enumerate(methods) if method in cells]
            x = [i + (index - (len(widths) - 1) / 2) * bar for i, _ in measured]
            ratios = [row["ratio"] for _, row in measured]
            whiskers = [
                [max(0.0, row["ratio"] - row["ratio_range"][0]) for _, row in measured],
                [max(0.0, row["ratio_range"][1] - row["ratio"]) for _, row in measured],
            ]
            shade = SHADES[index % len(SHADES)]
            axis.bar(x, ratios, bar * 0.94, color=shade, label=f"d = {d}", yerr=whiskers, ecolor="#495057", capsize=1.5)
            for at, ratio, whisker in zip(x, ratios, whiskers[1], strict=True):
                axis.text(at, (ratio + whisker) * 1.04, f"{ratio:.1f}", ha="center", va="bottom", fontsize=6.5)
        axis.axhline(1, color="#d9480f", lw=1)
        axis.set(yscale="log", ylim=(bottom * 0.9, top), ylabel="times as fast")
        axis.set_yticks([tick for tick in TICKS if bottom * 0.9 <= tick <= top], minor=False)
        axis.yaxis.set_major_formatter("{x:g}×")
        axis.minorticks_off()
        axis.set_title(dataset, loc="left", fontsize=10)
        axis.set_xticks(range(len(methods)), methods)
        axis.grid(axis="y", alpha=0.3)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(ncols=len(widths), loc="lower right", bbox_to_anchor=(1, 1), frameon=False, fontsize=8)
    subject = f"a training step against plain PyG + Lightning; medians of {result['settings']['repeats']} runs in turn"
    figure.supxlabel(f"{subject}. {caption(result['machine'])}", fontsize=8)
    return figure


def save(result: dict[str, Any], path: Path) -> None:
    """.png or .svg, by the name's ending."""
    figure = draw(result)
    figure.savefig(path)
    plt.close(figure)
