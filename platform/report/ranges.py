"""The ranges of the axes of a figure's panels, the same in the pictures and on the page."""

import math
from collections import defaultdict
from collections.abc import Iterable

from permlab.platform.report.blocks import Figure, Panel

Range = tuple[float, float]
BARS = {"xy": 1.0, "rows": 3.0}  # a bar may widen its axis by this share of the points' span; the rest is cut off


def ranges(figure: Figure) -> list[tuple[Range, Range]]:
    """(x, y) per panel, in the panel's own units; y of a panel of rows is not used."""
    values = [_values(panel) for panel in figure.panels]
    shared = defaultdict(list)
    for panel, extents in zip(figure.panels, values, strict=True):
        shared[panel.share].append(extents)
    return [
        (_span([extents[0]], panel), _span([v[1] for v in shared[panel.share]] if panel.share else [extents[1]], panel))
        if panel.kind == "xy"
        else (_span([v[1] for v in shared[panel.share]] if panel.share else [extents[1]], panel), (0.0, 1.0))
        for panel, extents in zip(figure.panels, values, strict=True)
    ]


Along = tuple[list[float], list[float], bool]  # points, ends of bars, logarithmic


def _values(panel: Panel) -> tuple[Along, Along]:
    """The values along x, and along the axis that has bars."""
    bars = [value for s in panel.series for value in (*s.low, *s.high)]
    across = [value for s in panel.series for value in s.x]
    if panel.kind == "rows":
        points = across + ([0.0] if panel.zero_line else [])
        return (across, [], panel.x_log), (points, bars, panel.x_log)
    return (across, [], panel.x_log), ([value for s in panel.series for value in s.y], bars, panel.y_log)


def _span(extents: Iterable[Along], panel: Panel) -> Range:
    extents = list(extents)
    log = extents[0][2]

    def usable(values: Iterable[float]) -> list[float]:
        return [value for value in values if math.isfinite(value) and (value > 0 or not log)]

    points = usable(value for along in extents for value in along[0])
    bars = usable(value for along in extents for value in along[1])
    if not points:
        return (0.1, 1.0) if log else (0.0, 1.0)
    if log:
        points, bars = ([math.log10(value) for value in values] for values in (points, bars))
    low, high = min(points), max(points)
    room = (high - low) * BARS[panel.kind] if high > low else math.inf
    low, high = max(min([low, *bars]), low - room), min(max([high, *bars]), high + room)
    pad = 0.05 * (high - low) or 0.5 * abs(low) or 0.5
    low, high = low - pad, high + pad
    return (10**low, 10**high) if log else (low, high)
