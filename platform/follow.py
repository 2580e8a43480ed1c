"""A courier: `python -m permlab.platform.follow FOLDER PID` delivers a run or a sweep of process PID to MLflow.

From a process of its own: no server, slow or dead, can hold the training up, and an SQLite store has one writer.
"""

import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from filelock import FileLock

from permlab.platform.curves import ready_curves
from permlab.platform.json_files import read_json
from permlab.platform.secrets import mask
from permlab.platform.tracking import CellDelivery, SweepDelivery, TuningDelivery, connect

PAUSE = 5.0  # seconds between two deliveries of what is running
GRACE = 60.0  # seconds for which a server that has answered before may be away when all else is over


def follow(folder: Path, parent: int) -> None:
    """Deliver a run or a sweep while it is under way; if its process `parent` dies, mark what was running as killed.

    A server that cannot be reached is tried again as long as there is something to wait for, and for a while
    afterwards if it has answered before. Of two couriers to one folder, as after a kill, the later waits.
    """
    with FileLock(folder / ".delivery.lock"):
        _follow(folder, parent)


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
            delivery = delivery or kind(folder, connect(folder.parent.parent))
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
    os.nice(10 if Path(sys.argv[1]).parent.name != "cells" else 19)  # training comes first
    try:
        follow(Path(sys.argv[1]), int(sys.argv[2]))
    except Exception as error:  # the last line is shown to the user
        traceback.print_exc()
        sys.exit(mask(str(error).splitlines()[0] if str(error) else type(error).__name__))
