"""A courier: delivers a run or a sweep of process PID to MLflow.

    python -m permlab.platform.tracking.courier_process FOLDER PID [now]

It is a separate process, so that a slow or dead server cannot delay the training, and an SQLite store has one writer.
It has a lower priority than the training, unless `now` says that the training is over.
"""

import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from permlab.platform.errors import DamagedFile
from permlab.platform.files.json_files import read_json
from permlab.platform.files.secrets import mask
from permlab.platform.large_imports import large_imports
from permlab.platform.tracking.cell_delivery import CellDelivery
from permlab.platform.tracking.courier import HOLDER, LOCK, not_yet
from permlab.platform.tracking.store import connect
from permlab.platform.tracking.sweep_delivery import SweepDelivery, TuningDelivery

PAUSE = 5.0  # seconds between two deliveries during a run
GRACE = 60.0  # seconds to wait after a run for a server that has answered before


def follow(folder: Path, parent: int, now: bool = False) -> None:
    """Deliver a run or a sweep while it is under way; if its process `parent` dies, mark what was running as killed.

    A server that cannot be reached is tried again until the run ends, and for GRACE seconds more if it has answered
    before. If a folder has two couriers, as after a kill, the later one waits; with `now` it kills couriers of dead
    processes, which may be waiting for a core.
    """
    lock, holder = FileLock(folder / LOCK), folder / HOLDER
    while now and not lock.is_locked:
        try:
            lock.acquire(timeout=1)
        except Timeout:
            _kill_orphan(holder)
    with lock:
        holder.write_text(str(os.getpid()))
        _follow(folder, parent, holder)
        for path in (holder, folder / LOCK):
            path.unlink(missing_ok=True)  # while the lock is held: a waiting process then checks again


def _kill_orphan(holder: Path) -> None:
    """Kill the courier that wrote this file, if its parent is dead; its work will be repeated."""
    with suppress(OSError, ValueError):
        pid = int(holder.read_text())
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        place = words.index("permlab.platform.tracking.courier_process")
        folder, parent = words[place + 1 : place + 3]
        orphan = f"\nPPid:\t{parent}\n" not in Path(f"/proc/{pid}/status").read_text()
        if folder == str(holder.parent) and orphan and pid != os.getpid():
            os.kill(pid, signal.SIGKILL)


def _follow(folder: Path, parent: int, holder: Path) -> None:
    kind: Any = {"sweeps": SweepDelivery, "tunings": TuningDelivery}.get(folder.parent.name, CellDelivery)
    ending = folder / ("result.json" if kind is CellDelivery else "sweep.json")

    def is_over() -> bool:
        return bool((read_json(ending) or {}).get("status"))

    def is_under_way() -> bool:
        return os.getppid() == parent and not is_over()

    delivery: Any = None
    answered = False
    patience = GRACE
    while True:
        orphaned = os.getppid() != parent  # checked first: a process writes its result before it exits
        over = is_over()
        try:
            if delivery is None:
                with large_imports():
                    client = connect(folder.parent.parent)
                delivery = kind(folder, client)
                delivery.on_progress = holder.touch
            delivery.advance(dead=orphaned and not over)
            answered, patience = True, GRACE
            for damage in delivery.damaged.values() if orphaned or over else ():
                raise damage
            if orphaned or over:
                return
        except DamagedFile:
            if orphaned or over:
                raise
        except Exception:  # MLflow raises its own errors, and those of requests and SQLAlchemy
            delivery = None  # the store may come back without its data
            if orphaned or over:
                if not answered or patience <= 0:
                    raise
                patience -= PAUSE
                time.sleep(PAUSE)
        deadline = time.monotonic() + PAUSE
        while time.monotonic() < deadline and is_under_way():
            time.sleep(0.05)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # meant for the training, whose result is still to be delivered
    now = sys.argv[3:] == ["now"]
    if not now:
        os.nice(10 if Path(sys.argv[1]).parent.name != "cells" else 19)  # training comes first
    try:
        follow(Path(sys.argv[1]), int(sys.argv[2]), now)
    except DamagedFile as damage:  # the last line is shown to the user
        sys.exit(f"not in MLflow: {damage}; the same command runs this cell again")
    except Exception as error:
        traceback.print_exc()
        sys.exit(not_yet(mask(str(error).splitlines()[0] if str(error) else type(error).__name__)))
