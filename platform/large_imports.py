"""Imports of large libraries in a process that is ours: a command, a worker, a courier."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def large_imports() -> Iterator[None]:
    """Import without the garbage collector, and keep what was imported out of its sight from then on.

    Torch, Lightning and PyG make a million objects that stay. To look through them again and again takes a fifth of
    the time of the import.
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
