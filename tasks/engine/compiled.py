"""`@compiled`: a loop over flat arrays as machine code, by numba, cached for later processes.

A loop is compiled when it is first called, in a second or two. This file reaches into numba (0.68; product.py is the
other): its cache does not notice a change in another file whose loops were compiled into this one, is not safe when two
processes write it, and raises on a damaged file.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock
from numba import njit


@cache
def _sources() -> tuple[tuple[str, int, int], ...]:
    """When each file of the engine was changed: a cached loop contains the loops that it calls."""
    files = Path(__file__).resolve().parent.glob("*.py")
    return tuple(sorted((file.name, (stat := file.stat()).st_mtime_ns, stat.st_size) for file in files))


class _SafeCache:
    """numba's cache of one loop: neither a damaged file nor a full disk is fatal, processes write one at a time, and an
    entry is used only if it is the one asked for.
    """

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def _alone(self) -> FileLock:
        return FileLock(Path(self._cache.cache_path) / "permlab.lock", timeout=30)

    def load_overload(self, types: Any, target: Any) -> Any:
        try:
            stored = self._cache.load_overload(types, target)
        except Exception:  # a damaged pickle may raise anything
            with suppress(OSError), self._alone():
                self._cache.flush()
            return None
        return stored if stored is not None and tuple(stored.signature.args) == tuple(types) else None

    def save_overload(self, types: Any, data: Any) -> None:
        with suppress(OSError), self._alone():
            self._cache.save_overload(types, data)


def compiled(loop: Callable[..., Any] | None = None, *, any_order: bool = False) -> Any:
    """A decorator. `any_order` allows sums to be reordered for vectorisation; the order is the same in every call. If
    nothing can be cached, as in a read-only image without a home folder, every process compiles for itself.
    """
    if loop is None:
        return lambda function: compiled(function, any_order=any_order)
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",  # a check for division by 0 would prevent vectorisation
        "fastmath": {"reassoc", "contract"} if any_order else {"contract"},
    }
    try:
        dispatcher: Any = njit(cache=True, **options)(loop)
    except RuntimeError:
        return njit(**options)(loop)
    kept = dispatcher._cache
    kept._cache_file._source_stamp = (kept._cache_file._source_stamp, loop.__module__, _sources())
    dispatcher._cache = _SafeCache(kept)
    return dispatcher
