"""How a sweep or a tuning looks while it runs: a live view on a terminal, plain lines in a log."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from permlab.platform.display.console import err, note
from permlab.platform.run.progress import Follower, headline_value, stored_headline

MINUTE = 60.0
REFRESH = 0.5  # seconds between two looks at the files of running cells
BAR, SMALL_BAR = 24, 10  # columns
LOGGED = 4  # running cells in a line of a log
Row = tuple[RenderableType, ...]  # name, state, epochs, bar, measured, time
STYLES = {"finished": "green", "failed": "red", "running": "cyan"}


@dataclass
class UnderWay:
    """A cell or a trial that was handed to a worker."""

    name: str
    history: Path  # the file of its epochs, which grows
    epochs: int
    since: float = field(default_factory=time.monotonic)


@dataclass
class Ended:
    """A cell or a trial that has ended, and what a person wants to know about it in a few words."""

    name: str
    state: str
    epochs: str
    measured: str
    seconds: float | None


class Standing(Protocol):
    """How many are done and failed, which are running, and what happened since the last update."""

    finished: int
    failed: int
    under_way: dict[str, UnderWay]
    ended: list[Ended]
    stopping: str  # why no more are started; empty until then


class SweepView:
    """Shows what is done, running and failed, how far each running cell is, and the time left."""

    def __init__(self, name: str, total: int, unit: str = "cells") -> None:
        self.name, self.total, self.unit = name, total, unit
        self.started = self.last_noted = time.monotonic()
        self.last_drawn = 0.0
        self.told = False  # that it is stopping
        self.followers: dict[str, tuple[Follower, str]] = {}  # by key, with the headline metric once it is known
        self.last = deque[Ended](maxlen=20)
        self.head: RenderableType = Text(name, style="bold")
        self.drawn: RenderableType = self.head
        self.live = Live(console=err, auto_refresh=False, get_renderable=lambda: self.drawn)

    def __enter__(self) -> Self:
        if err.shows_bars:
            self.live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if err.shows_bars:
            self.drawn = self.head
            self.live.refresh()
            self.live.stop()

    def at_this_pace(self, done: int) -> float | None:
        """Seconds left if the rest take as long as those that are done."""
        left = self.total - done
        return (time.monotonic() - self.started) / done * left if done and left > 0 else None

    def update(self, standing: Standing, seconds_left: Callable[[], float | None]) -> None:
        """`seconds_left` gives None if it is unknown."""
        ended, standing.ended = standing.ended, []
        self.last.extend(ended)
        self.followers = {key: self.followers[key] for key in standing.under_way if key in self.followers}
        summary = self._summary(standing, seconds_left())
        for one in ended:
            if one.state == "failed" or not err.shows_bars:
                measured = f": {one.measured}" if one.measured else ""
                note(f"{self.name}: {one.name} {one.state}{measured}" + (f"; {summary}" if not err.shows_bars else ""))
                self.last_noted = time.monotonic()
        if standing.stopping and standing.under_way and not self.told:
            self.told = True
            note(f"{standing.stopping}: {self._saving(standing)}")
        if not err.shows_bars:
            if time.monotonic() - self.last_noted > MINUTE:
                note(f"{self.name}: {summary}{self._far(standing)}")
                self.last_noted = time.monotonic()
        elif ended or time.monotonic() - self.last_drawn > REFRESH:
            self.last_drawn = time.monotonic()
            self.drawn = self._draw(standing, summary)
            self.live.refresh()

    def _far(self, standing: Standing) -> str:
        """How far the first running cells are, for a log."""
        rows = [self._follow(key, one) for key, one in list(standing.under_way.items())[:LOGGED]]
        parts = [
            f"{one.name} in epoch {far.epoch + 1} of {one.epochs}" for one, far, _ in rows if far.epoch < one.epochs
        ]
        return "; " + ", ".join(parts) if parts else ""

    def _saving(self, standing: Standing) -> str:
        count = len(standing.under_way)
        one = f"1 {self.unit.removesuffix('s')} is saving its state"
        return f"{one if count == 1 else f'{count} {self.unit} are saving their state'}; Ctrl-C again ends at once"

    def _summary(self, standing: Standing, seconds_left: float | None) -> str:
        of = f" of {self.total}" if self.total else ""
        parts = [f"{standing.finished}{of} {self.unit}"]
        parts += [f"{len(standing.under_way)} running"] if standing.under_way else []
        parts += [f"{standing.failed} failed"] if standing.failed else []
        parts += [clock(time.monotonic() - self.started)]
        parts += [f"about {clock(seconds_left)} left"] if seconds_left is not None and not standing.stopping else []
        return ", ".join(parts)

    def _draw(self, standing: Standing, summary: str) -> RenderableType:
        head = Table.grid(padding=(0, 1))
        width = min(BAR, err.width - len(self.name) - len(summary) - 3)
        bar = [ProgressBar(self.total, standing.finished, width=width)] if self.total and width >= 4 else []
        head.add_row(Text(self.name, style="bold"), *bar, summary)
        self.head = head
        parts: list[RenderableType] = [head]
        if standing.stopping and standing.under_way:
            parts.append(Text(f"{standing.stopping}: {self._saving(standing)}", style="yellow"))
        if rows := self._rows(standing):
            parts.append(rows)
        return Group(*parts)

    def _rows(self, standing: Standing) -> Table | None:
        """One row per running cell, then the last ones that ended, as many as fit on the screen."""
        room = max(err.height - 6, 4)
        running = list(standing.under_way.items())[: room - min(len(self.last), room // 3)]
        hidden = len(standing.under_way) - len(running)
        last = list(reversed(self.last))[: min(room - len(running) - bool(hidden), max(room // 3, 5))]
        rows = [self._running(key, one) for key, one in running]
        rows += [(f"and {hidden} more running", "", "", "", "", "")] if hidden else []
        rows += [_ended(one) for one in last]
        return _table(rows) if rows else None

    def _follow(self, key: str, one: UnderWay) -> tuple[UnderWay, Follower, str]:
        """Look at how far it is; with the headline metric, empty until it is known."""
        follower, headline = self.followers.get(key, (Follower(one.history), ""))
        follower.look()
        headline = headline or stored_headline(one.history.parent)
        self.followers[key] = follower, headline
        return one, follower, headline

    def _running(self, key: str, one: UnderWay) -> Row:
        _, follower, headline = self._follow(key, one)
        if not follower.epoch:
            return one.name, Text("starting", style="dim"), "", "", "", clock(time.monotonic() - one.since)
        value = headline_value(follower.measured, headline)
        left = follower.seconds_left(one.epochs)
        bar = ProgressBar(one.epochs, follower.epoch, width=SMALL_BAR)
        return (
            one.name,
            Text("running", style=STYLES["running"]),
            f"{follower.epoch} of {one.epochs}",
            bar if err.width >= 100 else "",
            f"{value[0]} {value[1]:.4f}" if value else "",
            "" if left is None else f"{clock(left)} left",
        )


def _ended(one: Ended) -> Row:
    state = Text(one.state, style=STYLES.get(one.state, "yellow"))
    measured = "" if one.state == "failed" else one.measured  # its error was printed above
    return one.name, state, one.epochs, "", measured, "" if one.seconds is None else f"took {clock(one.seconds)}"


def _table(rows: list[Row]) -> Table:
    """Names get the room that the other columns leave; of a long one the end is shown, where d and the seed are."""
    table = Table.grid(padding=(0, 2), pad_edge=True)
    for justify in ("left", "left", "right", "left", "right", "right"):
        table.add_column(justify=justify, no_wrap=True)
    others = list(zip(*rows, strict=True))[1:]
    widths = [max(SMALL_BAR if isinstance(cell, ProgressBar) else cell_len(str(cell)) for cell in c) for c in others]
    room = max(err.width - sum(widths) - 2 * len(widths) - 4, 12)
    for name, *rest in rows:
        table.add_row(name if cell_len(str(name)) <= room else f"…{str(name)[1 - room :]}", *rest)
    return table


def clock(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
