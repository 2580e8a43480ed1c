"""Draws a figure with Matplotlib. It needs nothing else of PermLab: "this plot as Python" is this file and a figure."""

import json
import math
from typing import Any

MARKERS = {"circle": "o", "square": "s", "cross": "X", "diamond": "D", "up": "^", "down": "v", "plus": "P"}
BARS = {"xy": 1.0, "rows": 3.0}  # bars may widen their axis by this share of the points' span; the rest is cut off
LANE = 0.15  # of a logarithmic axis, where zero is drawn, if it is among the points


def read(text: str) -> dict[str, Any]:
    """A figure from its JSON; what is not finite is null there."""
    figure: dict[str, Any] = json.loads(text)
    return figure


def draw(figure: dict[str, Any]) -> Any:
    """The figure's panels on one canvas, which has `savefig`."""
    import matplotlib
    from matplotlib.figure import Figure

    panels = figure["panels"]
    columns = min(figure["columns"], len(panels))
    rows = math.ceil(len(panels) / columns)
    heights = [max(height_of(panel) for panel in panels[i * columns : (i + 1) * columns]) for i in range(rows)]
    with matplotlib.rc_context({"font.size": 9}):
        canvas = Figure(figsize=(max(3.4 * columns, 5.2), sum(heights) + 0.9), layout="constrained")
        axes = list(canvas.subplots(rows, columns, squeeze=False, height_ratios=heights).flat)
        for i, (axis, panel, (x, y)) in enumerate(zip(axes, panels, ranges(panels), strict=False)):
            draw_panel = draw_rows if panel["kind"] == "rows" else draw_xy
            draw_panel(axis, panel, figure["styles"], x, y)
            if panel["kind"] == "rows" and i % columns and row_names(panel) == row_names(panels[i - 1]):
                axis.tick_params(labelleft=False)  # they are at the panel to the left
            axis.set_title(panel["title"], fontsize=9, loc="left")
            axis.spines[["top", "right"]].set_visible(False)
            axis.grid(alpha=0.25, axis="x" if panel["kind"] == "rows" else "both")
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        canvas.suptitle(figure["title"], fontsize=11, x=0.01, ha="left")
        add_legend(canvas, figure)
    return canvas


# Ranges: (low, high, zero) of an axis; zero is where 0 is drawn on a logarithmic axis, None if it is not among them


def ranges(panels: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """x and y of every panel; panels that share have the same range along the axis that has the bars."""
    spans: list[tuple[Any, Any]] = []
    for panel in panels:
        if panel["x_names"]:
            spans.append(((-0.6, len(panel["x_names"]) - 0.4, None), None))
            continue
        share = [other for other in panels if panel["share"] and other["share"] == panel["share"]] or [panel]
        if panel["kind"] == "rows":
            spans.append((span([points for other in share for points in along(other, "x")], panel, "x_log"), None))
        else:
            across: list[Any] = [([value for series in panel["series"] for value in series["x"]], [])]
            up = [points for other in share for points in along(other, "y")]
            spans.append((span(across, panel, "x_log"), span(up, panel, "y_log")))
    return spans


def along(panel: dict[str, Any], name: str) -> list[Any]:
    """Points, and ends of bars, along the axis that has the bars."""
    zero: list[Any] = [([0.0], [])] if panel["zero_line"] else []
    return zero + [(series[name], series["low"] + series["high"]) for series in panel["series"]]


def span(extents: list[Any], panel: dict[str, Any], scale: str) -> tuple[float, float, float | None]:
    log = panel[scale]
    points = [value for extent in extents for value in extent[0] if value is not None]
    bars = [value for extent in extents for value in extent[1] if value is not None]
    zero = log and 0 in points + bars
    if log:
        points, bars = ([math.log10(value) for value in values if value > 0] for values in (points, bars))
    if not points:
        low, high = (-1.0, 0.0) if log else (0.0, 1.0)
    else:
        low, high = min(points), max(points)
        room = (high - low) * BARS[panel["kind"]] if high > low else math.inf
        low, high = max(min([low, *bars]), low - room), min(max([high, *bars]), high + room)
        pad = 0.05 * (high - low) or 0.5 * abs(low) or 0.5
        low, high = low - pad, high + pad
    if not log:
        return low, high, None
    if not zero:
        return 10**low, 10**high, None
    lane = LANE * (high - low)
    return 10 ** (low - lane), 10**high, 10 ** (low - lane / 2)


def place(value: float | None, axis: Any, log: bool) -> float:
    """Where a value is drawn: inside the axis, also where a bar ends at zero or below on a logarithmic one."""
    if value is None:
        return math.nan
    if log and value <= 0:
        return axis[2] or axis[0]
    return min(max(value, axis[0]), axis[1])


# Panels


def height_of(panel: dict[str, Any]) -> float:
    return 0.75 + 0.24 * len(row_names(panel)) if panel["kind"] == "rows" else 2.3


def draw_xy(axis: Any, panel: dict[str, Any], styles: dict[str, Any], x: Any, y: Any) -> None:
    """y against x: lines with bands, or markers with bars."""
    scale_x(axis, panel, x)
    axis.set(xlabel=panel["x_label"], ylabel=panel["y_label"])
    if panel["zero_line"]:
        axis.axhline(0, color="#666666", linewidth=0.8)
    if panel["y_log"]:
        axis.set_yscale("log")
    axis.set_ylim(y[:2])
    if y[2]:
        ticks_with_zero(axis.yaxis, y)
    for series in panel["series"]:
        style = styles[series["method"]]
        across = [place(value, x, panel["x_log"]) for value in series["x"]]
        up, low, high = ([place(value, y, panel["y_log"]) for value in series[name]] for name in ("y", "low", "high"))
        dash = (0, style["dash"]) if style["dash"] else "-"
        look = {"color": style["colour"], "linewidth": 1.4, "linestyle": dash if series["line"] else "none"}
        if series["markers"]:
            look |= {"marker": MARKERS[style["marker"]], "markersize": 4}
        if series["hollow"]:
            look["markerfacecolor"] = "none"
        axis.plot(across, up, **look)
        if low and not series["markers"]:
            axis.fill_between(across, low, high, color=style["colour"], alpha=0.15, linewidth=0)
        elif low:
            axis.vlines(across, low, high, color=style["colour"], alpha=0.6, linewidth=1)


def row_names(panel: dict[str, Any]) -> list[str]:
    """The methods of a panel of rows, from top to bottom."""
    return list(dict.fromkeys(series["method"] for series in panel["series"]))


def draw_rows(axis: Any, panel: dict[str, Any], styles: dict[str, Any], x: Any, y: Any) -> None:
    """One row per method: its values along x, with bars. `groups` are drawn above the rows."""
    axis.set_xlabel(panel["x_label"])
    scale_x(axis, panel, x)
    names = row_names(panel)
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6 - 0.35 * len(panel["groups"]))
    if panel["zero_line"]:
        axis.axvline(0, color="#666666", linewidth=0.8)
    for i, (low, high) in enumerate(panel["groups"]):
        axis.hlines(-0.55 - 0.35 * i, low, high, color="#666666", linewidth=3)
    for series in panel["series"]:
        style, row = styles[series["method"]], names.index(series["method"])
        at, low, high = ([place(value, x, panel["x_log"]) for value in series[name]] for name in ("x", "low", "high"))
        if low:
            axis.hlines([row] * len(at), low, high, color=style["colour"], linewidth=2, alpha=0.6)
        look = {"markerfacecolor": "none"} if series["hollow"] else {}
        axis.plot(at, [row] * len(at), MARKERS[style["marker"]], color=style["colour"], markersize=5, **look)


def scale_x(axis: Any, panel: dict[str, Any], x: Any) -> None:
    """The scale and range of x, with ticks on the panel's own values if it has any, and on zero."""
    from matplotlib.ticker import NullLocator

    if panel["x_log"]:
        axis.set_xscale("log")
    axis.set_xlim(x[:2])
    if names := panel["x_names"]:
        axis.set_xticks(range(len(names)), ["\n" * (i % 2) + name for i, name in enumerate(names)])  # on two lines
    elif ticks := panel["x_ticks"]:
        ticks = ticks[:: math.ceil(len(ticks) / 10)]
        axis.set_xticks(ticks, [f"{value:g}" for value in ticks])
        axis.xaxis.set_minor_locator(NullLocator())
    elif x[2]:
        ticks_with_zero(axis.xaxis, x)


def ticks_with_zero(axis: Any, ends: Any) -> None:
    """Powers of ten, and 0 at its place."""
    from matplotlib.ticker import FixedLocator, LogFormatterMathtext, LogLocator, NullLocator

    low, high, zero = ends
    first = zero * zero / low  # where the lane of zero ends
    powers = [value for value in LogLocator(numticks=6).tick_values(low, high) if first <= value <= high]
    axis.set_major_locator(FixedLocator([zero, *powers]))
    axis.set_ticklabels(["0", *(LogFormatterMathtext()(value) for value in powers)])
    axis.set_minor_locator(NullLocator())
    line = axis.axes.axvline if axis.axis_name == "x" else axis.axes.axhline
    line(first, color="#666666", linewidth=0.8, linestyle=":")


def add_legend(canvas: Any, figure: dict[str, Any]) -> None:
    from matplotlib.lines import Line2D

    panels = [panel for panel in figure["panels"] if panel["kind"] == "xy"]
    handles = []
    for method in dict.fromkeys(series["method"] for panel in panels for series in panel["series"]):
        style = figure["styles"][method]
        look = {"color": style["colour"], "marker": MARKERS[style["marker"]]}
        handles.append(Line2D([], [], linestyle=(0, style["dash"]) if style["dash"] else "-", label=method, **look))
    if handles:
        columns = min(len(handles), 7, int(canvas.get_figwidth() / 1.15))  # so that it is not wider than the canvas
        canvas.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)
