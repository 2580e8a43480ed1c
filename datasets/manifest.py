"""`manifest.json`: what a cached data set is, its files and their digests."""

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from permlab.datasets.errors import DataError, DataUsageError
from permlab.datasets.seal import BrokenSeal, sealed, unsealed

FILE_NAME = "manifest.json"
FORMAT = 2  # format of the files below; raise it when they change, and old caches are rebuilt


class CacheMissing(DataError):
    """The data set is not in the cache."""


class CacheBroken(DataError):
    """The cache exists, but not as it was written."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(what, name)
        self.what, self.name = what, name

    def __str__(self) -> str:
        return f"{self.what}; rebuild it with: permlab data build {self.name} --force"


@dataclass(frozen=True)
class FileEntry:
    """A file of the cache, named relative to its folder."""

    file: str
    bytes: int
    sha256: str
    graphs: int = 0  # in a shard


@dataclass(frozen=True)
class Manifest:
    name: str
    format: int
    source: str  # class and digest of what was read
    source_digest: str
    task: str
    targets: list[str]
    units: list[str]  # one per target, empty where there is none
    default_target: str  # what is learned if a run names no target; empty: all of them
    classes: int
    gaps: bool  # labels are missing: NaN in y
    feature_names: list[str]
    edge_feature_names: list[str]
    holdout: int | float
    graphs: int
    dropped: int  # entries of the source that gave no graph, or have no label
    nodes: int
    edges: int
    min_nodes: int
    max_nodes: int
    shards: list[FileEntry]
    arrays: list[FileEntry]
    digest: str
    left_out: dict[str, int] = field(default_factory=dict)  # the dropped entries by reason
    lists: list[FileEntry] = field(default_factory=list)  # of them: left_out.csv, if there are any
    best: dict[str, float] = field(default_factory=dict)  # the best possible scores, where they are known

    @property
    def files(self) -> list[FileEntry]:
        return [*self.shards, *self.arrays, *self.lists]

    def write(self, folder: Path) -> None:
        text = json.dumps(sealed(asdict(self)), indent=2, ensure_ascii=False) + "\n"
        (folder / FILE_NAME).write_text(text, encoding="utf-8")


def dataset_digest(shards: list[FileEntry]) -> str:
    """The data set's digest: SHA-256 over the digests of its shards, in order."""
    return hashlib.sha256("\n".join(shard.sha256 for shard in shards).encode()).hexdigest()


def read_manifest(folder: Path, name: str) -> Manifest:
    """Read the manifest and check that every file exists in its full size (digests are not checked)."""
    path = folder / FILE_NAME
    if not folder.is_dir():
        raise CacheMissing(f"data set {name} is not built; build it with: permlab data build {name}")
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise CacheBroken(f"{folder} has cache format {document['format']}, this version reads {FORMAT}", name)
        document = unsealed(document)
        parts = ("shards", "arrays", "lists")  # older versions wrote no lists
        entries = {key: [FileEntry(**entry) for entry in document[key]] for key in parts if key in document}
        known = {entry.name for entry in fields(Manifest)} & document.keys()
        manifest = Manifest(**{name: document[name] for name in known} | entries)
    except FileNotFoundError:
        raise CacheBroken(f"{path} is missing", name) from None
    except BrokenSeal as error:
        raise CacheBroken(f"{path} is damaged: {error}", name) from None
    except (ValueError, KeyError, TypeError):
        raise CacheBroken(f"{path} is damaged: it does not read as a manifest", name) from None
    for entry in manifest.files:
        try:
            size = (folder / entry.file).stat().st_size
        except FileNotFoundError:
            raise CacheBroken(f"{folder / entry.file} is missing", name) from None
        if size != entry.bytes:
            raise CacheBroken(f"{folder / entry.file} has {size:,} bytes instead of {entry.bytes:,}", name)
    if dataset_digest(manifest.shards) != manifest.digest:
        raise CacheBroken(f"{path} is damaged: its digest does not match its shards", name)
    return manifest


def open_array(folder: Path, array: str, name: str) -> np.ndarray:
    """A flat array of the cache, mapped; copy-on-write: shared pages, but writable as far as torch can tell."""
    path = folder / f"{array}.npy"
    try:
        return np.load(path, mmap_mode="c", allow_pickle=False)
    except FileNotFoundError:
        raise CacheBroken(f"{path} is missing", name) from None
    except (ValueError, EOFError):
        raise CacheBroken(f"{path} is damaged", name) from None


def chosen_targets(manifest: Manifest, target: str | None) -> tuple[str, ...]:
    """The names that `target` stands for: None, a name, names joined by +, or * for all."""
    wanted = (manifest.default_target or "*") if target is None else target
    if wanted == "*":
        return tuple(manifest.targets)
    names = (wanted,) if wanted in manifest.targets else tuple(wanted.split("+"))
    for name in names:
        if name not in manifest.targets:
            choices = ", ".join(manifest.targets)
            raise DataUsageError(f"{manifest.name} has no target {name!r}; choose from {choices}, or * for all")
    if len(set(names)) < len(names):
        raise DataUsageError(f"target={wanted} names a target of {manifest.name} twice")
    return names
