"""Imports of large libraries in our own processes: a command, a worker, a courier."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def large_imports() -> Iterator[None]:
    """Import with the garbage collector off, and exclude the imported objects from later collections.

    Torch, Lightning and PyG create a million objects that stay. Scanning them again and again takes a fifth of the
    import time.
    """
    enabled, modules = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > modules:
            gc.freeze()
        if enabled:
            gc.enable()
