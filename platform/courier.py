"""Sends a courier after a run or a sweep, and waits for it in the end. Knows nothing of MLflow itself."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from permlab.platform.console import err


def send_courier(folder: Path) -> subprocess.Popen[str]:
    """A process that delivers what is written to `folder` while it is written.

    It stays in our session: in one of its own, Linux would give it as much of a core as the training. It ignores the
    signals that are meant for the training, and delivers the end of it.
    """
    command = [sys.executable, "-m", "permlab.platform.follow", str(folder), str(os.getpid())]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def await_courier(courier: subprocess.Popen[str], seconds: float) -> None:
    """Wait until all is delivered; say so if it is not."""
    try:
        _, errors = courier.communicate(timeout=seconds)
        reason = errors.strip().splitlines()[-1][:200] if courier.returncode and errors.strip() else ""
    except subprocess.TimeoutExpired:
        courier.kill()
        courier.communicate()
        reason = f"no answer within {seconds:.0f} seconds"
    if courier.returncode:
        err.print(f"not in MLflow yet: {reason}. Nothing is lost; later: permlab deliver", markup=False)


class Courier:
    """Sends a courier once, if one is wanted."""

    def __init__(self, folder: Path, wanted: bool) -> None:
        self.folder, self.wanted = folder, wanted
        self.process: subprocess.Popen[str] | None = None

    def send(self) -> None:
        if self.wanted and self.process is None:
            self.process = send_courier(self.folder)


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
        if courier.process:
            await_courier(courier.process, seconds)
    finally:
        lock.release()
