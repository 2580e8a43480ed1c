"""Everything trains on a device other than the CPU, with the CPU's numbers, and no step makes the host wait.

The device is simulated. Torch cannot unregister it, so the tests of tests/devices run in a process of their own.
"""

import os
import subprocess
import sys
from pathlib import Path

DEVICES = Path(__file__).parents[1] / "devices"


def test_everything_runs_on_a_device_other_than_the_cpu() -> None:
    files = sorted(str(file) for file in DEVICES.glob("*_on_device.py"))
    assert len(files) == 2
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *files],
        env={**os.environ, "PYTHONPATH": str(DEVICES), "OMP_NUM_THREADS": "1"},
        cwd=DEVICES.parents[1],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
