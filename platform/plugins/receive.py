"""In a worker of a sweep: load the code that the driver loaded, from what travels with the task."""

import os
import tempfile
from pathlib import Path

from permlab.datasets.catalogue import register_factory
from permlab.platform.errors import ConfigError
from permlab.platform.plugins.code import LOADED, Code, Shipped, import_from, load
from permlab.platform.settings.kinds import data_codes
from permlab.platform.settings.words import load_installed


def receive_codes(codes: list[Shipped], dataset: str) -> None:
    """Load each that this process has not loaded yet; ConfigError names the one that cannot be loaded here."""
    load_installed(dataset)
    for shipped in codes:
        known = LOADED.get(shipped.head)
        if not known or known.digest != shipped.digest:
            try:
                _receive(shipped)
            except ConfigError as error:
                raise ConfigError(f"{shipped.head} cannot be loaded on this node: {error}") from None
        if shipped.head in data_codes([dataset]):
            register_factory(shipped.head, LOADED[shipped.head].value, shipped.digest)


def _receive(shipped: Shipped) -> None:
    paths: frozenset[str] = frozenset()
    if shipped.pickled:
        import cloudpickle

        value = cloudpickle.loads(shipped.pickled)
    elif shipped.files:
        place, _, name = shipped.head.rpartition(":")
        root = _unpacked(shipped)
        value = import_from(place, name, root, shipped.main, shipped.files, shipped.digest)
        paths = frozenset(str(root / file) for file in shipped.files)
    elif load(shipped.head).digest != shipped.digest:
        raise ConfigError("the package that is installed here has other code than the driver's")
    else:
        return
    LOADED[shipped.head] = Code(shipped.head, value, shipped.digest, shipped, paths)


def _unpacked(shipped: Shipped) -> Path:
    """A folder with the files, made once per node."""
    root = Path(tempfile.gettempdir()) / f"permlab-{os.getuid()}" / "code" / shipped.digest
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in (root, root.parent, root.parent.parent):
        if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022:
            raise ConfigError(f"{folder} can be written to by others; remove it")
    for name, content in shipped.files.items():
        path = root / name
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"{path.name}.{os.getpid()}")
            part.write_bytes(content)
            part.replace(path)
    return root
