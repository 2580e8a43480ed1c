"""SIGTERM and Ctrl-C ask a run to stop after its current step; a second Ctrl-C stops at once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from permlab.platform.errors import StopNow


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], int]]:
    """Yields a function that returns the signal that came, 0 if none."""
    received = 0

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal received
        if received and number == signal.SIGINT:
            raise StopNow
        received = number

    previous = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: received
    finally:
        for number, old in previous.items():
            signal.signal(number, old)
