"""Code that a user names by path: load it, and send it to the workers of a sweep.

Code is loaded only when the user names it, on the command line, in a settings file or from Python, and never because
a stored run names it: `LOADED` holds what was named in this process. Its digest covers the file and every file beside
it that it imports; it is part of the cell key.
"""

import ast
import hashlib
import importlib.util
import inspect
import sys
import sysconfig
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from permlab.platform.errors import ConfigError, RunError
from permlab.platform.plugins.fingerprint import fingerprint
from permlab.platform.plugins.names import PYG, parse
from permlab.readouts.errors import said

_STARTED = time.time()
MOST_FILES, MOST_BYTES = 500, 10_000_000  # of the files that a plug-in imports


@dataclass(frozen=True)
class Shipped:
    """What a worker needs to load the code: its files, or the pickled object if it comes from no file."""

    head: str
    digest: str
    main: str  # the module's file, relative to its root; empty for an object, or a package that is installed
    files: dict[str, bytes] = field(default_factory=dict)
    pickled: bytes = b""


@dataclass(frozen=True)
class Code:
    """A loaded object, and what another process needs to load it."""

    head: str
    value: Any
    digest: str
    shipped: Shipped
    paths: frozenset[str] = frozenset()  # where its files lie in this process


LOADED: dict[str, Code] = {}


def load(head: str) -> Code:
    """Load `file.py:Name` or `package.module:Name`; load it again if a file of it has changed since."""
    known = LOADED.get(head)
    if known and known.shipped.pickled:
        return known
    place, _, name = head.rpartition(":")
    root, main = _locate(place)
    installed = _is_installed(root)
    files = {main: (root / main).read_bytes()} if installed else _with_imports(root, main)
    digest = digest_of(files)
    if known and known.digest == digest:
        return known
    value = import_from(place, name, root, main, files, digest)
    shipped = Shipped(head, digest, "" if installed else main, {} if installed else files)
    LOADED[head] = Code(head, value, digest, shipped, frozenset(str(root / file) for file in files))
    return LOADED[head]


def loaded(head: str) -> Code:
    """The code, if the user named it in this process."""
    if head not in LOADED:
        raise RunError(
            f"this needs the code {head}, and a stored run never loads code by itself: if you trust it, name it with "
            f"--code {head}"
        )
    return LOADED[head]


def register(value: Any) -> str:
    """The name of a class, function or object that was given from Python. What a module's file defines is known by that
    file; everything else, and what was imported before its file was edited, by a fingerprint of the live object.
    """
    import cloudpickle

    kind = value if isinstance(value, type) or inspect.isroutine(value) else type(value)
    head = f"{kind.__module__}:{kind.__qualname__}"
    module = sys.modules.get(kind.__module__)
    path = Path(getattr(module, "__file__", None) or "")
    in_file = kind is value and kind.__module__ != "__main__" and path.is_file() and "<" not in head
    if in_file and module is not None and not _is_other(module, path) and load(head).value is value:
        return head
    digest = fingerprint(value)
    head = f"{head}@{digest[:8]}"
    shipped = Shipped(head, digest, "", pickled=cloudpickle.dumps(value))
    LOADED[head] = Code(head, value, digest, shipped, frozenset({_file_of(kind)}))
    return head


def _file_of(kind: Any) -> str:
    """The file that defines a class or function; a cell of a notebook has one by name only."""
    code = getattr(kind, "__code__", None) or next(
        (value.__code__ for value in vars(kind).values() if inspect.isfunction(value)), None
    )
    return code.co_filename if code else ""


def digest_of(files: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _locate(place: str) -> tuple[Path, str]:
    """The folder that imports start from, and the module's file relative to it."""
    if place.endswith(".py"):
        file = Path(place).expanduser().resolve()
        if not file.is_file():
            raise ConfigError(f"there is no file {place}")
        return file.parent, file.name
    if not all(part.isidentifier() for part in place.split(".")):
        raise ConfigError(f"{place!r} is neither a file that ends in .py nor a module such as package.module")
    with _first_on_path(Path.cwd()):
        try:
            spec = importlib.util.find_spec(place)
        except (ImportError, ValueError, AttributeError):
            spec = None
        except Exception as error:  # importing the parent package runs its code
            raise ConfigError(f"{place} cannot be imported: {said(error)}") from None
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        raise ConfigError(f"there is no module {place} in this folder or among the installed packages")
    file = Path(spec.origin)
    depth = len(place.split(".")) - (0 if file.name == "__init__.py" else 1)
    root = file.parents[depth]
    return root, file.relative_to(root).as_posix()


def _is_installed(root: Path) -> bool:
    """Whether workers must have the package themselves: it lies where pip puts packages, or in the library."""
    places = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")}
    return any(root.is_relative_to(place) for place in places if place)


def _with_imports(root: Path, main: str) -> dict[str, bytes]:
    """The file and the files below `root` that it imports, directly or through others: path → content."""
    files: dict[str, bytes] = {}
    waiting = [main, *_files_of(root, list(Path(main).parent.parts))]
    while waiting:
        name = waiting.pop()
        if name in files:
            continue
        files[name] = (root / name).read_bytes()
        if len(files) > MOST_FILES or sum(map(len, files.values())) > MOST_BYTES:
            raise ConfigError(f"{main} imports more than {MOST_FILES} files or {MOST_BYTES:,} bytes beside it")
        for module in _imported(files[name], name):
            waiting += _files_of(root, module)
    return files


def _imported(source: bytes, name: str) -> Iterator[list[str]]:
    """The modules that a file imports, as lists of parts, relative ones resolved."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # importing it says so
    package = list(Path(name).parent.parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = start + (node.module.split(".") if node.module else [])
            yield base
            yield from ([*base, alias.name] for alias in node.names)


def _files_of(root: Path, module: list[str]) -> list[str]:
    """The files of a module below `root`: its own and the __init__.py of the packages around it."""
    candidates = ["/".join(module[:depth]) + "/__init__.py" for depth in range(1, len(module) + 1)]
    candidates.append("/".join(module) + ".py")
    return [name for name in candidates if module and (root / name).is_file()]


def import_from(place: str, name: str, root: Path, main: str, files: dict[str, bytes], digest: str) -> Any:
    """The object `name` of the module in root/main, and the files below `root` that it imports."""
    return _attribute(_import(place, root, main, files, digest), name, place)


def _import(place: str, root: Path, main: str, files: dict[str, bytes], digest: str) -> ModuleType:
    """Import the module; other versions of the files that it imports are imported anew."""
    own = {".".join(Path(name).with_suffix("").parts).removesuffix(".__init__"): root / name for name in files}
    if place.endswith(".py"):
        own.pop(Path(main).stem, None)
    present = {name: sys.modules[name] for name in own if name in sys.modules}
    if any(_is_other(module, own[name]) for name, module in present.items()):
        for name in present:
            del sys.modules[name]
            package, _, last = name.rpartition(".")
            vars(sys.modules[package]).pop(last, None) if package in sys.modules else None
    try:
        with _first_on_path(root):
            if not place.endswith(".py"):
                module = importlib.import_module(place)
            else:
                module = _run(f"{Path(main).stem}_{digest[:12]}", root / main)
            for name, path in own.items():  # those that it imports later too, when the folder is not on the path
                with suppress(Exception):  # a file that it may never come to import
                    importlib.import_module(name).__dict__["__permlab_digest__"] = _sha(path)
            return module
    except SyntaxError as error:
        where = f"{Path(error.filename or main).name}, line {error.lineno}"
        raise ConfigError(f"{where}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{place} cannot be imported: {said(error)}") from None


def _run(name: str, path: Path) -> ModuleType:
    """A module from a file of any place, under a name of its own."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _is_other(module: ModuleType, path: Path) -> bool:
    """Whether the module comes from another file, or may come from another version of this one: PermLab marks what it
    imports; what the user imported is unknown if the file was edited since this process began.
    """
    if getattr(module, "__file__", "") != str(path):
        return True
    mark = module.__dict__.get("__permlab_digest__")
    return path.stat().st_mtime > _STARTED if mark is None else mark != _sha(path)


def _sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class _first_on_path:  # noqa: N801  used as a function
    """Imports look into this folder first, and leave no compiled files there: those of an edit within a second would
    be taken for the edited file's.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.no_bytecode = str(folder), sys.dont_write_bytecode

    def __enter__(self) -> None:
        sys.path.insert(0, self.folder)
        sys.dont_write_bytecode = True
        importlib.invalidate_caches()

    def __exit__(self, *_: object) -> None:
        sys.path.remove(self.folder)
        sys.dont_write_bytecode = self.no_bytecode


def _attribute(module: ModuleType, name: str, place: str) -> Any:
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            names = [key for key, it in vars(module).items() if callable(it) and not key.startswith("_")]
            own = [key for key in names if getattr(vars(module)[key], "__module__", "") == module.__name__]
            close = get_close_matches(name, own, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise ConfigError(f"{place} has no {name}: {hint}it defines {', '.join(own) or 'nothing'}")
        value = getattr(value, part)
    return value


@contextmanager
def errors_of(names: Iterable[str]) -> Iterator[None]:
    """An exception that passes through a plug-in's files, or through PyG if a plug-in is PyG's, becomes a RunError of
    one line that says where; the exception is its cause. Errors that are worded for the user, and those of other code,
    stay as they are.
    """
    heads = [parse(name).head for name in names]
    paths = frozenset().union(*(LOADED[head].paths for head in heads if head in LOADED))
    of_pyg = any(head.startswith(PYG) for head in heads)
    try:
        yield
    except Exception as error:
        places = [place for place in traceback.extract_tb(error.__traceback__) if _is_in(place.filename, paths, of_pyg)]
        if not places or hasattr(error, "exit_code") or isinstance(error, MemoryError):
            raise
        where = f"{Path(places[-1].filename).name}, line {places[-1].lineno}"
        raise RunError(f"{said(error)} ({where})") from error


def _is_in(file: str, paths: frozenset[str], of_pyg: bool) -> bool:
    return file in paths or (of_pyg and "torch_geometric" in Path(file).parts)
