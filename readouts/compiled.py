"""Loops over flat arrays as machine code, by numba.

A loop is compiled when it is first called, in one second to ten, and kept for the processes to come. `readouts` and
`datasets` import nothing of each other: `datasets/compiled.py` is a link to this file.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock
from numba import njit

_ROOT = Path(__file__).resolve().parent.parent


@cache
def _sources() -> tuple[tuple[str, int, int], ...]:
    """When each file was changed that may hold a loop: one calls another, and what is kept of it contains the other."""
    files = [file for part in ("readouts", "datasets", "tasks") for file in (_ROOT / part).rglob("*.py")]
    return tuple(sorted((file.name, (stat := file.stat()).st_mtime_ns, stat.st_size) for file in files))


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
    kept = dispatcher._cache
    kept._cache_file._source_stamp = (kept._cache_file._source_stamp, _sources())
    dispatcher._cache = _Kept(kept)
    return dispatcher
