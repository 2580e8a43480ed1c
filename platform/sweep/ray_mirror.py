"""The files of running jobs, sent to the driver while they grow, from nodes that do not share the runs folder: the
live view, `permlab status` and MLflow then see them as if they were written there.

A thread of the worker looks at the files now and then, so that the training does not wait for it, and leaves what is
new in Ray's key-value store, from where the driver takes it. If some of it is lost, the view is late: all files come
back with the result.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from permlab.platform.files.whole_file import whole_file
from permlab.platform.sweep.ray_private import drop_values, put_value, take_values

PAUSE = 2.0  # seconds between two looks
WHOLE, GROWING = ("run.json",), ("history.jsonl", "progress.jsonl")


class Part(NamedTuple):
    """New content of a file, from this byte on."""

    file: str
    start: int
    content: bytes


class Mailbox:
    """The driver's side."""

    def __init__(self, name: str, runs: Path) -> None:
        self.name, self.runs = name, runs
        self.next_look = 0.0

    def deliver(self, under_way: Iterable[str]) -> None:
        """Write what has come for the folders under way; of others, the files have come with their result."""
        if time.monotonic() < self.next_look:
            return
        self.next_look = time.monotonic() + PAUSE
        folders = set(under_way)
        for key, content in sorted(take_values(f"{self.name}/").items()):
            place, start = key.removeprefix(f"{self.name}/").rsplit("/", 1)
            folder, file = place.rsplit("/", 1)
            if folder in folders:
                _write(self.runs / folder, Part(file, int(start), content))

    def close(self) -> None:
        drop_values(f"{self.name}/")


def _write(folder: Path, part: Part) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / part.file
    if part.start == 0:
        with whole_file(path) as file:
            file.write(part.content)
    elif path.exists() and path.stat().st_size == part.start:
        with path.open("ab") as file:
            file.write(part.content)


@contextmanager
def mirrored(name: str, place: Path, folder: str) -> Iterator[None]:
    """In a worker: while the block runs, send what is new in `place` to the driver's `folder`."""
    over = threading.Event()
    sent: dict[str, tuple[int, int]] = {}  # time and size of each file at the last look

    def look() -> None:
        while not over.wait(PAUSE):
            try:
                for file, start, content in _news(place, sent):
                    put_value(f"{name}/{folder}/{file}/{start:015d}", content)
            except Exception:  # Ray raises many kinds while the head of the cluster is away
                sent.clear()  # then all again

    threading.Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _news(place: Path, sent: dict[str, tuple[int, int]]) -> Iterator[Part]:
    for name in (*WHOLE, *GROWING):
        try:
            state = (place / name).stat()
            now, (_, size) = (state.st_mtime_ns, state.st_size), sent.get(name, (0, 0))
            if sent.get(name) == now:
                continue
            start = size if name in GROWING and now[1] >= size else 0
            with (place / name).open("rb") as file:
                file.seek(start)
                content = file.read(now[1] - start)
        except OSError:  # it is not there yet
            continue
        sent[name] = now
        yield Part(name, start, content)
