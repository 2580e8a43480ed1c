"""Memory that a step frees is kept for the next: glibc would give it back, and every step would fault it in again."""

import ctypes
import sys
from contextlib import suppress

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of mallopt(3)


def keep_freed_memory() -> None:
    """For the rest of this process; does nothing where the C library is not glibc."""
    if not sys.platform.startswith("linux"):
        return
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_TOP_PAD, 64 * 2**20)
