"""Where output goes: results to stdout, everything else (progress, notes, errors) to stderr."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

from permlab.platform.secrets import mask


class MaskingConsole(Console):
    """Text is printed without the passwords of the addresses in it."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(mask(thing) if isinstance(thing, str) else thing for thing in objects), **options)


out = MaskingConsole(soft_wrap=True, highlight=False)
err = MaskingConsole(stderr=True, soft_wrap=True, highlight=False)


def print_json(document: Any) -> None:
    """Write one JSON document to stdout, and nothing else."""
    sys.stdout.write(mask(json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False)) + "\n")


@contextmanager
def progress_bar(label: str, unit: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on stderr that lives while its block does; yields `report(done, total)`.

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
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(label, total=None, visible=False)  # until there is something to report

        def report(done: int, total: int | None) -> None:
            progress.update(task, completed=done, total=total, visible=True)

        yield report
