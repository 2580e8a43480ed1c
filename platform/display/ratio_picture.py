"""One picture: what each readout does to distances, over the same random pairs."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from permlab.readouts.catalogue import build
from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory import pairs
from permlab.readouts.theory.keys import full_spark
from permlab.readouts.theory.search import measure

N, D = 4, 2
FLOOR, CEILING = 1e-7, 1e7
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "ordering\nuniversal key": ("ordering", {"key": full_spark(D, 4)}),
    "ordering\n[I | 1]": ("ordering", {}),
    "α₁": ("alpha1", {}),
    "α₀": ("alpha0", {}),
    "set2set": ("set2set", {}),
    "sum": ("sum", {}),
    "kernels": ("kernels", {}),
    "sort": ("sort", {}),
    "identity": ("identity", {}),
}


def draw(path: str, samples: int, seed: int) -> None:
    if Path(path).suffix not in (".png", ".svg"):
        raise ReadoutError(f"the picture {path!r} must end in .png or .svg")
    X, Y = pairs.draw(samples, N, D, seed)
    logs = []
    for method, options in METHODS.values():
        ratio = measure(build(method, D, N, **options).double().requires_grad_(False), X, Y).ratio
        logs.append(ratio.clamp(FLOOR, CEILING).log10().numpy())
    figure, axes = plt.subplots(figsize=(10, 4.6), dpi=150, layout="constrained")
    axes.axhspan(-7, -3, color="#d9480f", alpha=0.08, lw=0)
    axes.axhspan(3, 7, color="#d9480f", alpha=0.08, lw=0)
    text_style: dict[str, Any] = {"va": "center", "color": "#a03000", "fontsize": 9}
    axes.text(0.5, 5, "jumps: nearly one input, different vectors", **text_style)
    axes.text(len(METHODS) + 0.5, -5, "loses: different inputs, one vector", ha="right", **text_style)
    violins: Any = axes.violinplot(logs, widths=0.85, showextrema=True, bw_method=0.08)
    for body in violins["bodies"]:
        body.set(facecolor="#1c7ed6", alpha=0.75)
    for part in ("cbars", "cmins", "cmaxes"):
        violins[part].set(color="#1c7ed6", lw=1)
    axes.set_xticks(range(1, len(METHODS) + 1), list(METHODS))
    axes.set_yticks([-6, -3, 0, 3, 6], ["10⁻⁶", "10⁻³", "1", "10³", "10⁶"])
    axes.set(ylim=(-7.2, 7.2), xlim=(0.4, len(METHODS) + 0.6), ylabel="‖φ(X) − φ(Y)‖ / d(X, Y)")
    axes.set_title(f"What a readout keeps and loses: {len(X):,} pairs of {N} × {D} matrices", loc="left", fontsize=11)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
    plt.close(figure)
