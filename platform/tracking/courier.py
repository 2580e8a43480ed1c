"""Sends a courier after a run or a sweep, and waits for it in the end. Knows nothing of MLflow itself."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from permlab.platform.display.console import note

SOON = 15.0  # seconds without progress before a low-priority courier is replaced
LOCK = ".delivery.lock"  # in the folder of a run or a sweep: held by the courier that delivers it
HOLDER = ".delivery.pid"  # who delivers the folder; touched whenever something has been delivered
LONGEST = 200  # characters of a reason


class Courier:
    """A process that delivers what is written to `folder` while it is written; sent once, if it is wanted.

    It stays in our session: in one of its own, Linux would give it as much of a core as the training. It ignores the
    signals that are meant for the training, and delivers the end of it.
    """

    def __init__(self, folder: Path, wanted: bool = True) -> None:
        self.folder, self.wanted = folder.resolve(), wanted
        self.process: subprocess.Popen[str] | None = None

    def send(self) -> None:
        if self.wanted and self.process is None:
            self.process = self._start()

    def wait(self, seconds: float) -> None:
        """Wait until all is delivered, or for `seconds` without progress; a note says if it is not.

        During training the courier has low priority. On a busy machine it would then wait for minutes, so if it makes
        no progress soon, a courier of normal priority continues its work.
        """
        if self.process is None:
            return
        said = self._end(min(SOON, seconds))
        if said is None:
            self.process = self._start("now")
            said = self._end(seconds)
        if said is None:
            said = not_yet(f"no answer within {seconds:.0f} seconds")
        if said:
            note(said)

    def _start(self, *words: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "permlab.platform.tracking.courier_process",
            str(self.folder),
            str(os.getpid()),
            *words,
        ]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def _end(self, seconds: float) -> str | None:
        """Its message if it failed, empty if not; None if it was killed, or made no progress for `seconds`."""
        assert self.process is not None
        seen, deadline = self._progress(), time.monotonic() + seconds
        while True:
            try:
                _, errors = self.process.communicate(timeout=min(1.0, seconds))
                break
            except subprocess.TimeoutExpired:
                if self._progress() != seen:
                    seen, deadline = self._progress(), time.monotonic() + seconds
                elif time.monotonic() > deadline:
                    self.process.kill()
                    self.process.communicate()
                    return None
        if self.process.returncode == -signal.SIGKILL:
            return None
        if not self.process.returncode:
            return ""
        said = errors.strip().splitlines()
        return said[-1] if said else not_yet(f"exit code {self.process.returncode}")

    def _progress(self) -> int:
        """Changes whenever something has been delivered."""
        try:
            return (self.folder / HOLDER).stat().st_mtime_ns
        except FileNotFoundError:
            return 0


def not_yet(reason: str) -> str:
    return f"not in MLflow yet: {reason[:LONGEST]}. Nothing is lost; later: permlab deliver"


@contextmanager
def one_courier(folder: Path, wanted: bool, seconds: float = 600) -> Iterator[Courier]:
    """If several processes fill one folder, one of them sends the courier, and waits for it in the end."""
    lock = FileLock(folder / ".courier.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        wanted = False
    courier = Courier(folder, wanted)
    try:
        yield courier
        courier.wait(seconds)
    finally:
        lock.release()
