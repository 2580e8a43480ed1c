"""A figure as PNG and SVG."""

import math
from pathlib import Path
from typing import Any

from permlab.platform.display.palette import Style
from permlab.platform.report.blocks import Figure, Panel
from permlab.platform.report.ranges import Range, ranges

MARKERS = {"circle": "o", "square": "s", "cross": "X", "diamond": "D", "up": "^", "down": "v", "plus": "P"}
FORMATS = ("png", "svg")


def draw(figure: Figure, folder: Path, styles: dict[str, Style]) -> None:
    """folder/NAME.png and folder/NAME.svg; `styles` by method."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    columns = min(figure.columns, len(figure.panels))
    rows = math.ceil(len(figure.panels) / columns)
    heights = [max(_height(panel) for panel in figure.panels[i * columns : (i + 1) * columns]) for i in range(rows)]
    width = max(3.4 * columns, 5.2)
    with matplotlib.rc_context({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": figure.name}):
        canvas = Canvas(figsize=(width, sum(heights) + 0.9), layout="constrained")
        axes = canvas.subplots(rows, columns, squeeze=False, height_ratios=heights).flat
        for axis, panel, spans in zip(axes, figure.panels, ranges(figure), strict=False):
            (_draw_rows if panel.kind == "rows" else _draw_xy)(axis, panel, styles, *spans)
            axis.set_title(panel.title, fontsize=9, loc="left")
            axis.spines[["top", "right"]].set_visible(False)
            axis.grid(alpha=0.25, axis="x" if panel.kind == "rows" else "both")
        for axis in list(axes)[len(figure.panels) :]:
            axis.set_visible(False)
        canvas.suptitle(figure.title, fontsize=11, x=0.01, ha="left")
        _legend(canvas, figure, styles)
        for ending in FORMATS:
            metadata = {"Date": None} if ending == "svg" else {}  # the same report gives the same file
            canvas.savefig(folder / f"{figure.name}.{ending}", dpi=110, metadata=metadata)
            canvas.set_layout_engine("none")  # the layout is final


def _height(panel: Panel) -> float:
    return 0.75 + 0.24 * len({series.method for series in panel.series}) if panel.kind == "rows" else 2.3


def _draw_xy(axis: Any, panel: Panel, styles: dict[str, Style], x_range: Range, y_range: Range) -> None:
    axis.set(xlabel=panel.x_label, ylabel=panel.y_label)
    _scale(axis, panel, x_range)
    if panel.y_log:
        axis.set_yscale("log")
    axis.set_ylim(y_range)
    for series in panel.series:
        style = styles[series.method]
        look: dict[str, Any] = {"color": style.colour, "linewidth": 1.4}
        look["linestyle"] = "none" if not series.line else (0, style.dash) if style.dash else "-"
        if series.markers:
            look |= {"marker": MARKERS[style.marker], "markersize": 4}
        if series.hollow:
            look["markerfacecolor"] = "none"
        axis.plot(series.x, series.y, **look)
        if series.low and not series.markers:
            axis.fill_between(series.x, series.low, series.high, color=style.colour, alpha=0.15, linewidth=0)
        elif series.low:
            axis.vlines(series.x, series.low, series.high, color=style.colour, alpha=0.6, linewidth=1)


def _draw_rows(axis: Any, panel: Panel, styles: dict[str, Style], x_range: Range, y_range: Range) -> None:
    axis.set_xlabel(panel.x_label)
    _scale(axis, panel, x_range)
    names = list(dict.fromkeys(series.method for series in panel.series))
    axis.set_yticks(range(len(names)), names)
    top = -0.6 - 0.35 * len(panel.groups)
    axis.set_ylim(len(names) - 0.4, top)
    if panel.zero_line:
        axis.axvline(0, color="#666666", linewidth=0.8)
    for i, (low, high) in enumerate(panel.groups):
        axis.hlines(-0.55 - 0.35 * i, low, high, color="#666666", linewidth=3)
    for series in panel.series:
        style, row = styles[series.method], names.index(series.method)
        if series.low:
            axis.hlines([row] * len(series.x), series.low, series.high, color=style.colour, linewidth=2, alpha=0.6)
        look: dict[str, Any] = {"markerfacecolor": "none"} if series.hollow else {}
        axis.plot(series.x, [row] * len(series.x), MARKERS[style.marker], color=style.colour, markersize=5, **look)


def _scale(axis: Any, panel: Panel, x_range: Range) -> None:
    if panel.x_log:
        axis.set_xscale("log")
    axis.set_xlim(x_range)


def _legend(canvas: Any, figure: Figure, styles: dict[str, Style]) -> None:
    from matplotlib.lines import Line2D

    methods = list(dict.fromkeys(s.method for panel in figure.panels if panel.kind == "xy" for s in panel.series))
    if not methods:
        return
    handles = []
    for method in methods:
        style = styles[method]
        line: Any = (0, style.dash) if style.dash else "-"
        handles.append(Line2D([], [], color=style.colour, marker=MARKERS[style.marker], linestyle=line, label=method))
    canvas.legend(handles=handles, loc="outside lower center", ncols=min(len(methods), 7), frameon=False)
