"""How a sweep looks while it runs: a live view on a terminal, plain lines in a log."""

import time
from types import TracebackType
from typing import Protocol, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from permlab.platform.display.console import err, note

MINUTE = 60.0


class Standing(Protocol):
    """How many are done, running and failed, and what happened since the last update."""

    finished: int
    running: int
    failed: int
    events: list[str]


class SweepView:
    """Shows how many cells are done, running and failed, and the time left."""

    def __init__(self, name: str, total: int, unit: str = "cells") -> None:
        self.name, self.total, self.unit = name, total, unit
        self.started = self.last_noted = time.monotonic()
        self.bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=err,
            disable=not err.shows_bars,
            refresh_per_second=4,
        )
        self.task = self.bar.add_task(name, total=total, note="starting")

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.refresh()  # in a notebook Rich does not draw the final state
        self.bar.stop()

    def at_this_pace(self, done: int) -> float | None:
        """Seconds left if the rest take as long as those that are done."""
        left = self.total - done
        return (time.monotonic() - self.started) / done * left if done and left > 0 else None

    def update(self, progress: Standing, seconds_left: float | None) -> None:
        """`seconds_left`: None if it is unknown."""
        left = "" if seconds_left is None else f", about {clock(seconds_left)} left"
        standing = f"{self.unit}, {progress.running} running, {progress.failed} failed{left}"
        self.bar.update(self.task, completed=progress.finished, note=standing)
        events, progress.events = progress.events, []
        for event in events:
            if "failed" in event or not err.shows_bars:
                note(f"{self.name}: {event}; {progress.finished} of {self.total} {standing}")
                self.last_noted = time.monotonic()
        if not err.shows_bars and time.monotonic() - self.last_noted > MINUTE:
            note(f"{self.name}: {progress.finished} of {self.total} {standing}")
            self.last_noted = time.monotonic()


def clock(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
