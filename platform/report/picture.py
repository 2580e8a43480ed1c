"""A figure as files: PNG, SVG, its data as CSV, and the plot as a Python script that needs nothing but Matplotlib."""

import csv
import io
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from permlab.platform.display.palette import Style
from permlab.platform.report import drawing
from permlab.platform.report.blocks import Figure

FORMATS = ("png", "svg", "csv", "py")
COLUMNS = ("panel", "method", "label", "line", "x", "y", "low", "high")
LINE_BEFORE = ('{"title":', '{"method":')  # a panel or a series of a figure's JSON begins a line


def draw(figure: Figure, folder: Path, styles: dict[str, Style]) -> None:
    """folder/NAME.png, .svg, .csv and .py; `styles` by method."""
    import matplotlib

    content = document(figure, styles)
    path = folder / figure.name
    path.with_name(f"{figure.name}.csv").write_text(to_csv(content), newline="")
    path.with_name(f"{figure.name}.py").write_text(to_script(content))
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": figure.name}):
        canvas = drawing.draw(content)
        for ending in ("png", "svg"):
            metadata = {"Date": None} if ending == "svg" else {}  # the same report gives the same file
            canvas.savefig(folder / f"{figure.name}.{ending}", dpi=110, metadata=metadata)
            canvas.set_layout_engine("none")  # the layout is final


def document(figure: Figure, styles: dict[str, Style]) -> dict[str, Any]:
    """All that a drawing needs: numbers to six digits, null if not finite; the styles of the figure's methods."""
    shown = {series.method for panel in figure.panels for series in panel.series}
    content: dict[str, Any] = _short(asdict(figure))
    return content | {"styles": {name: _short(asdict(style)) for name, style in styles.items() if name in shown}}


def to_csv(content: dict[str, Any]) -> str:
    """One row per point. Panels of rows have no y: their low and high are along x."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for panel in content["panels"]:
        for series in panel["series"]:
            line = "line" if series["line"] else "hollow points" if series["hollow"] else "points"
            for i, x in enumerate(series["x"]):
                y = None if panel["kind"] == "rows" else series["y"][i]
                label, low, high = (series[name][i] if series[name] else None for name in ("labels", "low", "high"))
                writer.writerow([panel["title"], series["method"], label, line, x, y, low, high])
    return text.getvalue()


def to_script(content: dict[str, Any]) -> str:
    return script_template().replace("FIGURE_AS_JSON", as_lines(content))


def script_template() -> str:
    """The script of any figure. The data are JSON in a raw string: they hold no quote that ends it."""
    source = Path(drawing.__file__).read_text()
    call = "canvas = draw(FIGURE)\ncanvas.savefig(f\"{FIGURE['name']}.png\", dpi=110)\n"
    return f"{source}\n\nFIGURE = read(r'''FIGURE_AS_JSON''')\n{call}"


def as_lines(content: dict[str, Any]) -> str:
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).replace("'", "\\u0027")
    for begin in LINE_BEFORE:
        text = text.replace(begin, f"\n{begin}")
    return text


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_short(inner) for inner in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        rounded = float(f"{value:.6g}")
        return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded
    return value
