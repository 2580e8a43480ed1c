"""A digest of a live Python object: of its code, of what that code refers to, and of its values.

For plug-ins that come from no file: classes of a script or a notebook, and objects with weights. The same definitions
and values give the same digest in every process; a helper function, a constant or a weight that changes gives another.
"""

import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_PLACES = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib"))
_NOT_OURS = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__", "_abc_impl"}


def fingerprint(value: Any) -> str:
    digest = hashlib.sha256()
    for part in _parts(value, {}):
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()


def _parts(value: Any, seen: dict[int, Any]) -> Iterator[str | bytes]:
    if value is None or isinstance(value, str | bytes | int | float | complex | bool):
        yield f"{type(value).__name__} {value!r}"
        return
    if id(value) in seen:
        yield "again"
        return
    seen[id(value)] = value  # keep it alive, so that no other object gets its id
    yield type(value).__name__
    if isinstance(value, ModuleType):
        yield value.__name__
    elif isinstance(value, CodeType):
        yield from (value.co_code, " ".join(value.co_names))
        for constant in value.co_consts:
            yield from _parts(constant, seen)
    elif isinstance(value, FunctionType | type) and _is_installed(value):
        yield f"{value.__module__}:{value.__qualname__}"
    elif isinstance(value, FunctionType):
        yield from _function(value, seen)
    elif isinstance(value, type):
        yield value.__qualname__
        yield from _parts(list(value.__bases__), seen)
        yield from _mapping({name: part for name, part in vars(value).items() if name not in _NOT_OURS}, seen)
    elif isinstance(value, MethodType | staticmethod | classmethod):
        yield from _parts(value.__func__, seen)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _parts(part, seen)
    elif isinstance(value, set | frozenset):
        yield from sorted(fingerprint(part) for part in value)
    elif isinstance(value, dict):
        yield from _mapping(value, seen)
    elif hasattr(value, "detach") and hasattr(value, "dtype"):  # a tensor
        array = value.detach().cpu()
        yield f"{array.dtype} {list(array.shape)}"
        byte = array.new_empty(0).byte().dtype  # NumPy has no bfloat16
        yield array.contiguous().flatten().view(byte).numpy().tobytes() if array.numel() else b""
    elif hasattr(value, "tobytes") and hasattr(value, "dtype"):  # an array or a number of NumPy
        yield f"{value.dtype} {getattr(value, 'shape', ())}"
        yield value.tobytes()
    else:
        yield from _parts(type(value), seen)
        yield from _mapping(getattr(value, "__dict__", {}), seen)


def _function(value: FunctionType, seen: dict[int, Any]) -> Iterator[str | bytes]:
    yield value.__qualname__
    yield from _parts(value.__code__, seen)
    yield from _parts(list(value.__defaults__ or ()), seen)
    yield from _parts(value.__kwdefaults__ or {}, seen)
    yield from _parts([cell.cell_contents for cell in value.__closure__ or ()], seen)
    for name in _names(value.__code__):
        if name in value.__globals__:
            yield name
            yield from _parts(value.__globals__[name], seen)


def _names(code: CodeType) -> Iterator[str]:
    """The names that a function and the functions inside it may look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _mapping(values: Any, seen: dict[int, Any]) -> Iterator[str | bytes]:
    for name in sorted(values, key=str):
        yield str(name)
        yield from _parts(values[name], seen)


def _is_installed(value: Any) -> bool:
    module = sys.modules.get(value.__module__ or "")
    file = getattr(module, "__file__", None)
    if file is None:
        return value.__module__ in sys.builtin_module_names
    return value.__module__.startswith("permlab.") or any(file.startswith(place) for place in _PLACES if place)
