"""Starts a courier for a run or a sweep, and waits for it at the end. Does not import MLflow."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from permlab.platform.display.console import doing, note

SOON = 15.0  # seconds without progress before a low-priority courier is replaced
LOCK = ".delivery.lock"  # in the folder of a run or a sweep: held by the courier that delivers it
HOLDER = ".delivery.pid"  # the id of that courier; touched after every delivery
LONGEST = 200  # characters of a reason


class Courier:
    """A process that delivers the files in `folder` while they are written; started once, if it is `wanted`.

    It stays in our session: in its own session, Linux would give it as much CPU time as the training. It ignores
    signals meant for the training, so that it can deliver how the training ended.
    """

    def __init__(self, folder: Path, wanted: bool = True) -> None:
        self.folder, self.wanted = folder.resolve(), wanted
        self.process: subprocess.Popen[str] | None = None

    def send(self) -> None:
        if self.wanted and self.process is None:
            self.process = self._start()

    def wait(self, seconds: float) -> None:
        """Wait until all is delivered, or for `seconds` without progress; if it fails, a note says why.

        During training the courier has low priority. On a busy machine it would then wait for minutes, so if it makes
        no progress soon, a courier of normal priority continues its work.
        """
        if self.process is None:
            return
        with doing("delivering to MLflow", in_log=False):
            problem = self._end(min(SOON, seconds))
            if problem is None:
                self.process = self._start("now")
                problem = self._end(seconds)
        if problem is None:
            problem = not_yet(f"no answer within {seconds:.0f} seconds")
        if problem:
            note(problem)

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
        """Wait for it: its message if it failed, empty if not; None if killed, or without progress for `seconds`."""
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
        lines = errors.strip().splitlines()
        return lines[-1] if lines else not_yet(f"exit code {self.process.returncode}")

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
    """If several processes fill one folder, only one of them starts a courier and waits for it at the end."""
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
