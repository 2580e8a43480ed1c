"""Loss and metrics over epochs as a picture."""

from pathlib import Path
from typing import Any

SPLITS = {"train": "#0072B2", "validation": "#009E73", "holdout": "#D55E00", "holdout_perm": "#CC79A7"}
DASHES = {"holdout_perm": (0, (4, 2))}


def ready_curves() -> None:
    """Load what drawing needs, fonts included, while there is time: it takes a second."""
    from io import BytesIO

    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().set_title("0")
    figure.savefig(BytesIO())


def draw_curves(history: list[dict[str, Any]], title: str, path: Path) -> None:
    """One panel a metric (loss first), one line a split; permuted holdout dashed over the plain one."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    names = {key for entry in history for key in entry if "/" in key and not key.endswith("running_loss")}
    metrics = sorted({name.split("/")[1] for name in names}, key=lambda metric: (metric != "loss", metric))
    if not metrics or len(history) < 2:  # a point is no curve
        return
    figure = Figure(
        figsize=(4.2 * len(metrics), 3.4),
    )
    for axis, metric in zip(figure.subplots(1, len(metrics), squeeze=False)[0], metrics, strict=True):
        for split, colour in SPLITS.items():
            points = [(entry["epoch"], entry[f"{split}/{metric}"]) for entry in history if f"{split}/{metric}" in entry]
            if points:
                epochs, values = zip(*points, strict=True)
                style = {
                    "color": colour,
                    "linestyle": DASHES.get(split, "-"),
                    "marker": "o" if len(points) == 1 else "",
                }
                axis.plot(epochs, values, label=split, **style)
        axis.set_xlabel("epoch")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_title(metric.upper() if metric != "loss" else "loss")
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.suptitle(title)
    figure.subplots_adjust(left=0.18 / len(metrics), right=1 - 0.05 / len(metrics), bottom=0.15, top=0.84, wspace=0.25)
    figure.savefig(path, dpi=110)
