"""The files of running jobs, sent to the driver while they grow, from nodes that do not share the runs folder: the
live view, `permlab status` and MLflow then see them as if they were written there.

A thread of the worker looks at the files now and then, so that the training does not wait for it. What it sends waits
in an actor until the driver takes it. If some of it is lost, the view is late: all files come back with the result.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError

from permlab.platform.files.whole_file import whole_file

PAUSE = 2.0  # seconds between two looks
WHOLE, GROWING = ("run.json",), ("history.jsonl", "progress.jsonl")


class Part(NamedTuple):
    """New content of a file, from this byte on."""

    folder: str  # in the runs folder
    file: str
    start: int
    content: bytes


class Box:
    """The actor."""

    def __init__(self) -> None:
        self.parts: list[Part] = []

    def put(self, parts: list[Part]) -> None:
        self.parts += parts

    def take(self) -> list[Part]:
        parts, self.parts = self.parts, []
        return parts


class Mailbox:
    """The driver's side."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.box: Any = ray.remote(num_cpus=0, max_restarts=-1)(Box).remote()
        self.asked: Any = None
        self.next_look = 0.0

    def deliver(self, under_way: Iterable[str]) -> None:
        """Write what has come for the folders under way; never waits."""
        if self.asked is None and time.monotonic() > self.next_look:
            self.next_look = time.monotonic() + PAUSE / 2
            self.asked = self.box.take.remote()
        if self.asked is None or not ray.wait([self.asked], timeout=0)[0]:
            return
        asked, self.asked = self.asked, None
        try:
            parts: list[Part] = ray.get(asked)
        except RayError:  # its node is lost; it starts again
            return
        folders = set(under_way)
        for part in parts:
            if part.folder in folders:  # else the job has ended, and its files have come
                _write(self.runs / part.folder, part)


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
def mirrored(box: Any, place: Path, folder: str) -> Iterator[None]:
    """In a worker: while the block runs, send what is new in `place` to the driver's `folder`."""
    over = threading.Event()
    sent: dict[str, tuple[int, int]] = {}  # time and size of each file at the last look

    def look() -> None:
        while not over.wait(PAUSE):
            if parts := list(_news(place, folder, sent)):
                box.put.remote(parts)

    thread = threading.Thread(target=look, daemon=True)
    if box is not None:
        thread.start()
    try:
        yield
    finally:
        over.set()


def _news(place: Path, folder: str, sent: dict[str, tuple[int, int]]) -> Iterator[Part]:
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
        yield Part(folder, name, start, content)
