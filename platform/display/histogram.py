"""Histograms that a terminal can show."""

import numpy as np
from rich.table import Table

from permlab.platform.display.console import out

BINS = 12


def histogram(values: np.ndarray, *, whole: bool) -> list[dict[str, float]]:
    """Counts in at most BINS equal bins; bins of whole numbers have whole edges. `to` is not included."""
    low, high = float(values.min()), float(values.max())
    if whole:
        width = max(1, int(np.ceil((high - low + 1) / BINS)))
        edges = np.arange(low, high + width + 1, width)
    else:
        edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    counts, edges = np.histogram(values, edges)
    used = range(len(counts)) if not whole else [i for i in range(len(counts)) if edges[i] <= high]
    return [{"from": float(edges[i]), "to": float(edges[i + 1]), "count": int(counts[i])} for i in used]


def draw(bins: list[dict[str, float]]) -> None:
    top = max(entry["count"] for entry in bins)
    whole = all(entry["from"].is_integer() and entry["to"].is_integer() for entry in bins)
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right")
    table.add_column()
    table.add_column(justify="right")
    for entry in bins:
        if whole and entry["to"] - entry["from"] == 1:
            label = f"{entry['from']:.0f}"
        elif whole:
            label = f"{entry['from']:.0f} to {entry['to'] - 1:.0f}"
        else:
            label = f"{entry['from']:.2f} to {entry['to']:.2f}"
        table.add_row(label, f"[cyan]{_bar(entry['count'] / top)}[/cyan]", f"{entry['count']:,.0f}")
    out.print(table)


def _bar(share: float, width: int = 40) -> str:
    eighths = round(share * width * 8)
    if share and not eighths:
        eighths = 1
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
