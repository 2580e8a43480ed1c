"""How benchmarks show numbers."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from permlab.platform.display.console import out

FILE_WIDTH = 160  # outside a terminal, wide enough that no column is cut


def new_table(words: Iterable[str], numbers: Iterable[str]) -> Table:
    """Text columns, then number columns."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in words:
        table.add_column(column, no_wrap=True)
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def print_table(table: Table) -> None:
    Console(width=None if out.is_terminal else FILE_WIDTH, highlight=False).print(table)


def spread(values: Sequence[float]) -> list[float]:
    return [min(values), max(values)]


def to(ends: Sequence[float], digits: int = 1) -> str:
    """A range as text: 3.1–4.0."""
    low, high = ends
    return f"{low:.{digits}f}–{high:.{digits}f}"


def reasons(rows: Sequence[dict[str, Any]]) -> str:
    """Why the fast engine was not used, one line per reason."""
    counts = Counter(row["engine_reason"] for row in rows if row.get("engine_reason"))
    return "".join(f"plain in {count} of {len(rows)} rows: {reason}\n" for reason, count in counts.items())


def averages(rows: Sequence[dict[str, Any]], group: str) -> str:
    """Geometric mean and smallest of the rows' ratios, one line per value of `group`."""
    lines = []
    for value in dict.fromkeys(row[group] for row in rows):
        ratios = [row["ratio"] for row in rows if row[group] == value]
        lines.append(f"{value}: {statistics.geometric_mean(ratios):.1f}× on average, at least {min(ratios):.1f}×")
    return "\n".join(lines)
