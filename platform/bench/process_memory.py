"""Memory of processes as Linux reports it: PSS, which splits shared pages among processes, and peak resident memory."""

import os
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from permlab.platform.errors import RunError


def rollup(pid: int) -> dict[str, float]:
    """PSS and private memory of a process, in MB."""
    fields = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, size, *_ = line.split()
        fields[name.rstrip(":")] = int(size) / 1000
    return {"pss": fields["Pss"], "private": fields["Private_Clean"] + fields["Private_Dirty"]}


def own() -> float:
    """PSS of this process, in MB: a page that n processes share counts 1/n in each."""
    return rollup(os.getpid())["pss"]


def _tree(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(inner for child in children for inner in _tree(int(child)))]


def peak_of_tree(command: list[str]) -> tuple[float, float]:
    """Run a command; (seconds, peak PSS in MB of it and all its descendants, sampled every 50 ms)."""
    peak = 0.0
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    finished = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not finished.wait(0.05):
            try:
                peak = max(peak, sum(rollup(pid)["pss"] for pid in _tree(process.pid)))
            except (OSError, ValueError):  # a child exited while we read its files
                continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    seconds = time.perf_counter() - start
    finished.set()
    watcher.join()
    if code:
        raise RunError(f"`{' '.join(command[3:])}` failed (exit code {code}); its message is above")
    return seconds, peak


def peak_resident(command: list[str], child: str) -> tuple[float, float]:
    """Run a command; peak resident memory, in MB, of it and of its children that have `child` as an argument."""
    peaks = [0.0, 0.0]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    finished = threading.Event()

    def watch() -> None:
        while not finished.wait(0.2):
            with suppress(OSError):  # it exited while we read its files
                peaks[0] = max(peaks[0], _high_water(process.pid))
                for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                    if child in Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
                        peaks[1] = max(peaks[1], _high_water(int(pid)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    errors = process.communicate()[1].strip().splitlines()
    finished.set()
    watcher.join()
    if process.returncode:
        raise RunError(errors[-1] if errors else f"exit code {process.returncode}")
    return peaks[0], peaks[1]


def _high_water(pid: int) -> float:
    """Peak resident memory of a process so far, in MB; 0 if it has just exited."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM")), 0.0)
