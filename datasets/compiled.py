"""Loops over flat arrays as machine code: numba, behind one file.

A loop is compiled when it is first called, in about a second, and kept for the processes to come.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba import njit


class _Kept:
    """numba's cache of one loop, for which neither a damaged file nor a full disk is a reason to stop."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, *args: Any) -> Any:
        try:
            return self._cache.load_overload(*args)
        except Exception:  # whatever a pickle that is none may raise
            with suppress(OSError):
                self._cache.flush()
            return None

    def save_overload(self, *args: Any) -> None:
        with suppress(OSError):
            self._cache.save_overload(*args)


def compiled(loop: Callable[..., Any] | None = None, *, any_order: bool = False) -> Any:
    """A decorator. `any_order` lets sums be taken in any order, as vectors want it: always the same one.

    Where nothing can be kept, as in a read-only image without a home, every process compiles for itself.
    """
    if loop is None:
        return lambda function: compiled(function, any_order=any_order)
    options: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "contract"} if any_order else False}
    try:
        dispatcher: Any = njit(cache=True, **options)(loop)
    except RuntimeError:
        return njit(**options)(loop)
    dispatcher._cache = _Kept(dispatcher._cache)
    return dispatcher
