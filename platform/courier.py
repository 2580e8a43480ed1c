"""Sends a courier after a run or a sweep, and waits for it in the end. Knows nothing of MLflow itself."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from permlab.platform.console import err

SOON = 15.0  # seconds for a courier that comes behind everything else on this machine


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
        """Until all is delivered; say so if it is not.

        While we trained it had to stand back. Where others keep all cores busy it would do so for minutes: if it is not
        done soon, one like all other processes goes on from where it is.
        """
        if self.process is None:
            return
        reason = self._end(min(SOON, seconds))
        if reason is None:
            self.process = self._start("now")
            reason = self._end(seconds)
        if reason is None:
            reason = f"no answer within {seconds + SOON:.0f} seconds"
        if reason:
            err.print(f"not in MLflow yet: {reason}. Nothing is lost; later: permlab deliver", markup=False)

    def _start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "permlab.platform.follow", str(self.folder), str(os.getpid()), *words]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def _end(self, seconds: float) -> str | None:
        """Why it failed; empty if it did not, None if it took too long or was killed."""
        assert self.process is not None
        try:
            _, errors = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            return None
        if self.process.returncode == -signal.SIGKILL:
            return None
        if not self.process.returncode:
            return ""
        return errors.strip().splitlines()[-1][:200] if errors.strip() else f"exit code {self.process.returncode}"


@contextmanager
def one_courier(folder: Path, wanted: bool, seconds: float = 600) -> Iterator[Courier]:
    """Where several processes fill one folder, one of them sends the courier; it is waited for in the end."""
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
