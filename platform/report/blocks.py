"""The parts of a report: sections of text, tables and figures, described once and written in every format."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Entry:
    """A table's entry: its text, and a small note under it; `good` colours the note (colour is never the only sign)."""

    text: str
    bold: bool = False
    note: str = ""
    good: bool | None = None


@dataclass(frozen=True)
class Table:
    """`folded`: shown on demand. With a `label`, which is its own, it is also written to tables.tex."""

    title: str
    header: list[str]
    rows: list[list[Entry | str]]
    folded: bool = False
    label: str = ""


@dataclass(frozen=True)
class Items:
    """A list of short lines, with an optional heading. `recipe`: it says what the numbers in tables.tex rest on."""

    lines: list[str]
    title: str = ""
    recipe: bool = False


@dataclass(frozen=True)
class Series:
    """The points of one method; `low` and `high` bound a band (curves) or a bar (points that have markers)."""

    method: str
    x: list[float]
    y: list[float]
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)  # of the points
    line: bool = True
    markers: bool = True
    hollow: bool = False  # hollow markers


@dataclass(frozen=True)
class Panel:
    """`xy`: x against y. `rows`: one row per method, its values along x, bars from low to high; y is not used.

    Panels of a figure that name the same `share` have the same y range. `groups` are stretches of x, drawn as bars
    above the rows: methods that do not differ significantly. Ticks of x fall only on `x_ticks`, if there are any. With
    `x_names` x is a place among them: 0, 1, 2, …
    """

    title: str
    x_label: str
    y_label: str
    series: list[Series]
    kind: Literal["xy", "rows"] = "xy"
    x_log: bool = False
    y_log: bool = False
    share: str = ""
    groups: list[tuple[float, float]] = field(default_factory=list)
    zero_line: bool = False
    x_ticks: list[float] = field(default_factory=list)
    x_names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Figure:
    """`name` is its file's name; `alt` describes the figure in words."""

    name: str
    title: str
    alt: str
    panels: list[Panel]
    columns: int = 2
    caption: str = ""


Block = str | Items | Table | Figure  # a string is a paragraph


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    blocks: list[Block]

    @property
    def figures(self) -> list[Figure]:
        return [block for block in self.blocks if isinstance(block, Figure)]

    @property
    def tables(self) -> list[Table]:
        return [block for block in self.blocks if isinstance(block, Table)]


def methods_in(figures: list[Figure]) -> set[str]:
    """The methods that the figures show."""
    return {series.method for figure in figures for panel in figure.panels for series in panel.series}
