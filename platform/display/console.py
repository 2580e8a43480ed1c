"""Where output goes: results to stdout, everything else (progress, notes, errors) to stderr."""

import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from permlab.platform.files.secrets import mask, masked

WIDE = 1000  # columns in a pipe or a file, which have no screen to fit
# In a notebook without ipywidgets, Lightning and Ray ask for it when they are imported; bars are off there.
warnings.filterwarnings("ignore", message="IProgress not found")
logging.getLogger("ray.widgets.util").setLevel(logging.WARNING)
_printed = ContextVar("notes are printed", default=True)


class PlainConsole(Console):
    """Prints text unchanged, except for passwords: `:x:` stays `:x:`, and a pipe gets the whole table."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, soft_wrap=True, highlight=False, emoji=False)
        if not (self.is_terminal or self.is_jupyter or "COLUMNS" in os.environ):
            self.width = WIDE

    @property
    def shows_bars(self) -> bool:
        """On a terminal, and in a notebook if ipywidgets is installed, which Rich needs there."""
        screen = self.is_terminal and not self.is_dumb_terminal  # a dumb one cannot draw over what it has shown
        return screen or (self.is_jupyter and find_spec("ipywidgets") is not None)

    def _write_buffer(self) -> None:
        """Drop output that only moves or hides the cursor: a notebook would show it as an empty cell output."""
        if self.is_jupyter and all(segment.control or not segment.text for segment in self._buffer):
            self._buffer.clear()
        else:
            super()._write_buffer()

    def render_str(self, text: str, **options: Any) -> Text:  # called for every printed string, in tables too
        return super().render_str(mask(text), **options)


out = PlainConsole()
err = PlainConsole(stderr=True)


def note(message: str) -> None:
    """Print one line to stderr; for a Python caller, log it to the logger `permlab` instead."""
    if _printed.get():
        err.print(message, markup=False)
    else:
        logging.getLogger("permlab").info(mask(message))


@contextmanager
def notes_logged() -> Iterator[None]:
    """Inside the block notes are logged, and only progress bars are printed."""
    token = _printed.set(False)
    try:
        yield
    finally:
        _printed.reset(token)


def print_json(document: Any) -> None:
    """Write one JSON document to stdout, and nothing else."""
    sys.stdout.write(json.dumps(masked(document), indent=2, allow_nan=False, ensure_ascii=False) + "\n")


@contextmanager
def doing(what: str, in_log: bool = True) -> Iterator[None]:
    """Say what takes some seconds, while the block runs: beside a spinner on a terminal, in one line of a log."""
    if not err.shows_bars:
        if in_log:
            note(what)
        yield
        return
    with err.status(Text(what), refresh_per_second=4):
        yield


@contextmanager
def progress_bar(label: str, unit: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on stderr while the block runs; yields `report(done, total)`.

    Without a terminal it stays silent: a log wants events, not bars.
    """
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.shows_bars) as progress:
        task = progress.add_task(label, total=None, visible=False)  # until there is something to report

        def report(done: int, total: int | None) -> None:
            progress.update(task, completed=done, total=total, visible=True)

        yield report
