"""Sends a courier after a run or a sweep, and waits for it in the end. Knows nothing of MLflow itself."""

import subprocess
import sys
from pathlib import Path

from permlab.platform.console import err


def send_courier(folder: Path) -> subprocess.Popen[str]:
    """A process that delivers what is written to `folder` while it is written.

    It stays in our session: in one of its own, Linux would give it as much of a core as the training. It ignores the
    signals that are meant for the training, and delivers the end of it.
    """
    command = [sys.executable, "-m", "permlab.platform.tracking", str(folder)]
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
