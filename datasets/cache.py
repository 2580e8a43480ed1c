"""The cache: build a data set once, whole or not at all, and verify it.

A build writes into a temporary folder beside its place and is renamed when whole. A lock allows one builder at a time;
it ends with its process, so a killed builder leaves only a folder that the next one removes.
"""

import errno
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from filelock import AcquireReturnProxy, FileLock, Timeout

from permlab.datasets.catalogue import DatasetName, parse_name
from permlab.datasets.checked import checked_manifest, compare
from permlab.datasets.chunk import GraphChunk
from permlab.datasets.errors import DataError
from permlab.datasets.left_out import LIST
from permlab.datasets.manifest import (
    FILE_NAME,
    FORMAT,
    CacheBroken,
    CacheMissing,
    Manifest,
    dataset_digest,
    read_manifest,
)
from permlab.datasets.molecules import GUARD
from permlab.datasets.places import cache_root
from permlab.datasets.remote import RemoteFolder
from permlab.datasets.sources.base import Progress, Reading, file_digest
from permlab.datasets.writer import ShardWriter, entry_of


def folder_of(name: DatasetName) -> Path:
    return cache_root() / name.folder


def _silent(done: int, total: int | None) -> None:
    pass


def build(
    text: str,
    *,
    force: bool = False,
    progress: Progress = _silent,
    download: Progress = _silent,
    note: Callable[[str], None] = lambda message: None,
) -> Manifest:
    """Build the data set unless it exists already, from the same source and in the same format."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise DataError(GUARD)  # a worker that imports the building script: it would wait for itself
    name = parse_name(text)
    folder = folder_of(name)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.parent / f".{folder.name}.lock", lambda: note(f"waiting: {name.text} is being built")):
            remote = RemoteFolder.of(name.folder)
            built = None if force else _current(name, folder)
            if remote and not built and not force and remote.download(folder, name.text, download):
                built = _current(name, folder)
            if not built:
                built = _build(name, folder, progress, download)
            if remote and (force or remote.digest(name.text) != built.digest):
                remote.upload(folder, built, download)
            return built
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
            raise DataError(
                f"no space left in {folder.parent} while building {name.text}; free some, or set PERMLAB_CACHE "
                "to a larger disk"
            ) from None
        where = str(error.filename or folder.parent)
        refused = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENOENT)
        if error.errno in refused and where.startswith(str(folder.parent)):
            raise DataError(
                f"cannot write to {where} ({os.strerror(error.errno).lower()}); set PERMLAB_CACHE to a folder of yours"
            ) from None
        raise


def fetch(name: DatasetName) -> Path:
    """The data set's folder; if it exists only on object storage, it is copied first."""
    folder = folder_of(name)
    remote = None if (folder / FILE_NAME).exists() else RemoteFolder.of(name.folder)
    if remote:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / f".{folder.name}.lock"):
            if not (folder / FILE_NAME).exists():
                remote.download(folder, name.text, _silent)
    return folder


def ensure(text: str) -> None:
    """Build the data set if it is missing or damaged, or if its source is quick to check and has changed."""
    if parse_name(text).source.quick_digest or missing(text):
        build(text)


def missing(text: str, progress: Progress = _silent) -> str:
    """Why the data set has to be built before it can be used; empty if it exists and is whole."""
    name = parse_name(text)
    try:
        checked_manifest(folder_of(name), name.text, progress)
    except CacheMissing:
        return f"{name.text} is not built"
    except CacheBroken as broken:
        return broken.what
    return ""


def locked(path: Path, on_wait: Callable[[], None]) -> AcquireReturnProxy:
    lock = FileLock(path)
    try:
        return lock.acquire(timeout=0)
    except Timeout:
        on_wait()
        return lock.acquire()


def _current(name: DatasetName, folder: Path) -> Manifest | None:
    """The manifest if the cache is whole and up to date with its source."""
    try:
        manifest = checked_manifest(folder, name.text)
    except (CacheMissing, CacheBroken):
        return None
    try:
        digest = name.source.digest()
    except DataError:  # the source is gone, but the data set built from it is here
        return manifest
    return manifest if digest in (None, manifest.source_digest) else None


def _build(name: DatasetName, folder: Path, progress: Progress, download: Progress) -> Manifest:
    prefix = f".{folder.name}.building-"
    for left_behind in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(left_behind, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        workspace, result = scratch / "workspace", scratch / "result"
        workspace.mkdir()
        result.mkdir()
        manifest = _write(name, workspace, result, progress, download)
        manifest.write(result)
        if folder.exists():
            folder.rename(scratch / "replaced")
        result.rename(folder)
        return manifest
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write(name: DatasetName, workspace: Path, result: Path, progress: Progress, download: Progress) -> Manifest:
    reading = name.source.read(workspace, download)
    source_digest = name.source.digest() or _digest_of_downloads(workspace)
    progress(0, reading.total)
    widths = len(reading.feature_names), len(reading.targets), len(reading.edge_feature_names)
    with ShardWriter(result, *widths) as writer:
        for chunk in reading.chunks:
            _check(chunk, reading)
            writer.append(chunk)
            progress(writer.graphs, reading.total)
        if not writer.graphs:
            raise DataError(f"data set {name.text} has no graphs")
        shards, arrays = writer.close()
        left_out = reading.left_out
        return Manifest(
            name=name.text,
            format=FORMAT,
            source=type(name.source).__name__,
            source_digest=source_digest,
            task=reading.task,
            targets=list(reading.targets),
            units=list(reading.units or ("",) * len(reading.targets)),
            default_target=reading.default_target,
            classes=reading.classes,
            gaps=reading.gaps,
            feature_names=list(reading.feature_names),
            edge_feature_names=list(reading.edge_feature_names),
            holdout=reading.holdout,
            graphs=writer.graphs,
            dropped=0 if reading.total is None else reading.total - writer.graphs,
            nodes=writer.nodes,
            edges=writer.edges,
            min_nodes=writer.min_nodes,
            max_nodes=writer.max_nodes,
            shards=shards,
            arrays=arrays,
            digest=dataset_digest(shards),
            left_out=dict(left_out.reasons) if left_out else {},
            lists=[entry_of(left_out.path.rename(result / LIST))] if left_out and left_out.reasons else [],
            best=dict(reading.best),
        )


def _check(chunk: GraphChunk, reading: Reading) -> None:
    """A chunk is as its reading says: labels are missing only where they may be, and widths are right."""
    missing = np.isnan(chunk.y if chunk.y.ndim == 2 else chunk.y[:, None])
    if missing.any() and not reading.gaps:
        graph, target = np.argwhere(missing)[0]
        raise DataError(f"graph {chunk.graph_id[graph]} has no label of {reading.targets[target]!r}")
    edge_features = 0 if chunk.edge_attr is None else chunk.edge_attr.shape[1]
    widths = chunk.x.shape[1], missing.shape[1], edge_features
    named = len(reading.feature_names), len(reading.targets), len(reading.edge_feature_names)
    if widths != named:
        raise DataError(f"the source names {named} features, targets and edge features, and its graphs have {widths}")


def _digest_of_downloads(workspace: Path) -> str:
    files = [file for ending in ("zip", "csv", "csv.gz") for file in workspace.glob(f"*.{ending}")]
    return "".join(file_digest(file) for file in files)


def verify(text: str, progress: Progress = _silent) -> Manifest:
    """Compare every file with its digest; the error names the first that differs."""
    name = parse_name(text)
    folder = fetch(name)
    manifest = read_manifest(folder, name.text)
    compare(folder, manifest, {}, progress)
    return manifest
