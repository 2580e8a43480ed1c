"""A courier: `python -m permlab.platform.follow FOLDER PID [now]` delivers a run or a sweep of process PID to MLflow.

From a process of its own: no server, slow or dead, can hold the training up, and an SQLite store has one writer. It
stands back behind the training, unless `now` says that this is over.
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

from permlab.platform.curves import ready_curves
from permlab.platform.json_files import read_json
from permlab.platform.secrets import mask
from permlab.platform.tracking import CellDelivery, SweepDelivery, TuningDelivery, connect

PAUSE = 5.0  # seconds between two deliveries of what is running
GRACE = 60.0  # seconds for which a server that has answered before may be away when all else is over


def follow(folder: Path, parent: int, now: bool = False) -> None:
    """Deliver a run or a sweep while it is under way; if its process `parent` dies, mark what was running as killed.

    A server that cannot be reached is tried again as long as there is something to wait for, and for a while
    afterwards if it has answered before. Of two couriers to one folder, as after a kill, the later waits; one that is
    to deliver `now` ends those of dead processes, which may have to wait for a core.
    """
    lock, holder = FileLock(folder / ".delivery.lock"), folder / ".delivery.pid"
    while now and not lock.is_locked:
        try:
            lock.acquire(timeout=1)
        except Timeout:
            _end(holder)
    with lock:
        holder.write_text(str(os.getpid()))
        _follow(folder, parent)


def _end(holder: Path) -> None:
    """Kill the courier that wrote this file, if its parent is dead: whatever it was about to do is done again."""
    with suppress(OSError, ValueError):
        pid = int(holder.read_text())
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        place = words.index("permlab.platform.follow")
        folder, parent = words[place + 1 : place + 3]
        orphan = f"\nPPid:\t{parent}\n" not in Path(f"/proc/{pid}/status").read_text()
        if folder == str(holder.parent) and orphan and pid != os.getpid():
            os.kill(pid, signal.SIGKILL)


def _follow(folder: Path, parent: int) -> None:
    kind: Any = {"sweeps": SweepDelivery, "tunings": TuningDelivery}.get(folder.parent.name, CellDelivery)
    delivery: Any = None
    ready_curves()
    ended = folder / ("result.json" if kind is CellDelivery else "sweep.json")

    def over() -> bool:
        return bool((read_json(ended) or {}).get("status"))

    def under_way() -> bool:
        return os.getppid() == parent and not over()

    patience = 0.0
    while True:
        watched = under_way()
        try:
            if delivery is None:
                delivery = kind(folder, connect(folder.parent.parent))
                patience = GRACE if delivery.state["run_id"] else 0.0
            delivery.advance()
            patience = GRACE
            if delivery.complete:
                return
            if os.getppid() != parent and not over():
                delivery.abandon()
                return
        except Exception:  # MLflow raises its own, requests' and SQLAlchemy's
            if not watched:
                if patience <= 0:
                    raise
                patience -= PAUSE
                time.sleep(PAUSE)
        deadline = time.monotonic() + PAUSE
        while time.monotonic() < deadline and under_way():
            time.sleep(0.05)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # meant for the training, whose end is still to be delivered
    now = sys.argv[3:] == ["now"]
    if not now:
        os.nice(10 if Path(sys.argv[1]).parent.name != "cells" else 19)  # training comes first
    try:
        follow(Path(sys.argv[1]), int(sys.argv[2]), now)
    except Exception as error:  # the last line is shown to the user
        traceback.print_exc()
        sys.exit(mask(str(error).splitlines()[0] if str(error) else type(error).__name__))
