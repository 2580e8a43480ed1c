"""Loops over flat arrays as machine code: numba, behind one file.

A loop is compiled when it is first called, in about a second, and kept for the processes to come. `readouts` and
`datasets` import nothing of each other: `datasets/compiled.py` is a link to this file.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import FileLock
from numba import njit


class _Kept:
    """numba's cache of one loop, made safe: neither a damaged file nor a full disk is a reason to stop, processes write
    one at a time, and what is read is what was asked for.
    """

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def _alone(self) -> FileLock:
        return FileLock(Path(self._cache.cache_path) / "permlab.lock", timeout=30)

    def load_overload(self, types: Any, target: Any) -> Any:
        try:
            found = self._cache.load_overload(types, target)
        except Exception:  # whatever a pickle that is none may raise
            with suppress(OSError), self._alone():
                self._cache.flush()
            return None
        return found if found is not None and tuple(found.signature.args) == tuple(types) else None

    def save_overload(self, types: Any, data: Any) -> None:
        with suppress(OSError), self._alone():
            self._cache.save_overload(types, data)


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
