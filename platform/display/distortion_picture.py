"""One picture: distortion against the number of rows, on logarithmic axes, with the slope of every kind of key."""

from math import isfinite
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import ScalarFormatter

from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory.distortion import Distortion

COLOURS = ("#868e96", "#1c7ed6", "#d9480f", "#2f9e44", "#7048e8")


def draw(path: str, rows: list[Distortion]) -> None:
    """Of the keys of a kind and n, the median: a line through what pairs show, a band up to what is certified."""
    if Path(path).suffix not in (".png", ".svg"):
        raise ReadoutError(f"the picture {path!r} must end in .png or .svg")
    figure, axes = plt.subplots(figsize=(8, 5), dpi=150, layout="constrained")
    sizes = sorted({row.n for row in rows})
    for kind, colour in zip(dict.fromkeys(row.kind for row in rows), COLOURS, strict=False):
        shown, certified = (medians(rows, kind, side) for side in ("at_least", "at_most"))
        ns = [n for n in sizes if isfinite(shown.get(n, np.inf))]
        label = f"{kind}, slope {slope(shown):.2f}" if len(ns) > 1 else kind
        size = 10 if kind == "equiangular" else 5  # the optimised ones lie on top of it
        axes.plot(ns, [shown[n] for n in ns], "o-", color=colour, ms=size, label=label)
        proved = [n for n in ns if isfinite(certified[n])]
        axes.fill_between(
            proved, [shown[n] for n in proved], [certified[n] for n in proved], color=colour, alpha=0.13, lw=0
        )
    every = np.array(sizes, dtype=float)
    axes.plot(every, np.sqrt(every), "k:", lw=1, label="√n")
    axes.plot(every, every**2, "k--", lw=1, label="n²")
    axes.set(xscale="log", yscale="log", xlabel="n, rows", ylabel="distortion b₀/a₀")
    axes.set_xticks(sizes, list(map(str, sizes)), minor=False)
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.set_title(
        f"Distortion of ↓(XA), d = {len(rows[0].key)}: from what pairs show to what is certified",
        loc="left",
        fontsize=11,
    )
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path)
    plt.close(figure)


def medians(rows: list[Distortion], kind: str, side: str) -> dict[int, float]:
    """By n, the median over the keys of a kind."""
    values: dict[int, list[float]] = {}
    for row in rows:
        if row.kind == kind:
            values.setdefault(row.n, []).append(getattr(row, side))
    return {n: float(np.median(of_n)) for n, of_n in values.items()}


def slope(by_size: dict[int, float]) -> float:
    """Of log b₀/a₀ against log n, by least squares; keys with b₀/a₀ = ∞ are left out."""
    finite = {n: value for n, value in by_size.items() if isfinite(value)}
    return float(np.polyfit(np.log(list(finite)), np.log(list(finite.values())), 1)[0])
