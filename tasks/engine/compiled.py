"""Loops over flat arrays as machine code, by numba.

A loop is compiled when it is first called, in a second or two, and kept for the processes to come. `readouts` and
`datasets` import nothing of each other: `datasets/compiled.py` is a link to this file.
"""

import inspect
from collections.abc import Callable
from contextlib import suppress
from functools import cache, update_wrapper
from pathlib import Path
from typing import Any

from filelock import FileLock
from llvmlite import binding
from numba import njit, types
from numba.core import cgutils, extending

_ROOT = Path(__file__).resolve().parent.parent
_Code: Any = extending._Intrinsic
_SHARED: list["_Shared"] = []  # those that no loop has called yet


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
            found = self._load(types, target)
        except Exception:  # whatever a pickle that is none may raise
            with suppress(OSError), self._alone():
                self._cache.flush()
            return None
        return found if found is not None and tuple(found.signature.args) == tuple(types) else None

    def _load(self, types: Any, target: Any) -> Any:
        """As numba does, but that shared loops are ready before the code that names them is linked."""
        target.refresh()
        kept = self._cache._cache_file.load(self._cache._index_key(types, target.codegen()))
        if kept is None:
            return None
        code = kept[0][2][0]
        for shared in [each for each in _SHARED if each.symbol.encode() in code]:
            shared.ready()
        return self._cache._impl.rebuild(target, kept)

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
    kept._cache_file._source_stamp = (kept._cache_file._source_stamp, loop.__module__, _sources())
    dispatcher._cache = _Kept(kept)
    return dispatcher


class _Shared(_Code):
    """A loop's name, its symbol, in the code of others; from Python, the loop itself."""

    def __init__(self, loop: Callable[..., Any]) -> None:
        def typed(context: Any, *numbers: Any) -> Any:
            if not all(isinstance(each, types.Integer | types.Boolean) for each in numbers):
                return None
            self.ready()
            return types.none(*self.types), self._call

        signature = inspect.signature(loop)
        context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        whole = signature.replace(parameters=[context, *signature.parameters.values()])
        vars(typed)["__signature__"] = whole  # without it numba would make the numbers a tuple
        super().__init__(loop.__name__, typed)
        update_wrapper(self, loop)
        self.loop, self.symbol = compiled(loop), f"{loop.__module__}.{loop.__name__}"
        self.types = (types.int64,) * len(signature.parameters)
        self._register()
        _SHARED.append(self)

    def __call__(self, *numbers: int) -> None:
        self.loop(*numbers)

    def __reduce__(self) -> str:
        return str(self.__name__)

    def ready(self) -> None:
        """Compiled, and known by its name to the loops that call it."""
        if self not in _SHARED:
            return
        self.loop.compile(self.types)
        made = self.loop.overloads[self.types]
        place = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
        if not place or made.signature.return_type != types.none:
            raise RuntimeError(f"{self.symbol} returns something, or has no code of its own")
        binding.add_symbol(self.symbol, place)
        _SHARED.remove(self)

    def _call(self, context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rules = context.call_conv
        kind = rules.get_function_type(types.none, self.types)
        loop = cgutils.get_or_insert_function(builder.module, kind, self.symbol)
        status, _ = rules.call_function(builder, loop, types.none, self.types, args)
        with cgutils.if_unlikely(builder, status.is_error):
            rules.return_status_propagate(builder, status)
        return context.get_dummy_value()


def shared(loop: Callable[..., Any]) -> Any:
    """A decorator for loops that take whole numbers alone and return nothing: compiled once for all that call them.

    Without it a loop is compiled again into every other one that calls it.
    """
    return _Shared(loop)
