"""The cache is checked on use: a file that changed since it last matched its digest is compared with it again.

A stamp in the data set's folder records each file's metadata when it matched: size, times of change, inode. Reading the
whole cache takes about 0.6 s per GB; with the stamp it is done once, not in every run. A stamp does not detect bits
that change on the disk itself, below the file system: `permlab data verify` reads every byte.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from permlab.datasets.manifest import CacheBroken, FileEntry, Manifest, read_manifest
from permlab.datasets.seal import sealed, unsealed
from permlab.datasets.sources.base import Progress, file_digest

STAMP = ".checked.json"
_remembered: dict[Path, dict[str, Any]] = {}  # for folders that cannot be written to


def checked_manifest(folder: Path, name: str, progress: Progress = lambda done, total: None) -> Manifest:
    """The manifest of a data set whose files have not changed since the build; CacheBroken if one has."""
    manifest = read_manifest(folder, name)
    compare(folder, manifest, _read_stamp(folder), progress)
    return manifest


def compare(folder: Path, manifest: Manifest, stamp: dict[str, Any], progress: Progress) -> None:
    """Compare files that differ from the stamp with their digests, then stamp them; CacheBroken names a bad one."""
    try:
        seen = {entry.file: _seen(folder, entry) for entry in manifest.files}  # taken before the files are read
        changed = [entry for entry in manifest.files if stamp.get(entry.file) != seen[entry.file]]
        total, done = sum(entry.bytes for entry in changed), 0
        for entry in changed:
            if file_digest(folder / entry.file) != entry.sha256:
                raise CacheBroken(f"{folder / entry.file} does not match its digest", manifest.name)
            done += entry.bytes
            progress(done, total)
    except OSError as error:
        raise CacheBroken(f"{error.filename or folder} cannot be read ({error.strerror})", manifest.name) from None
    if changed:
        _write_stamp(folder, seen)


def _seen(folder: Path, entry: FileEntry) -> list[Any]:
    """Metadata that changes when the file does, as far as the file system knows."""
    status = (folder / entry.file).stat()
    return [entry.sha256, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _write_stamp(folder: Path, seen: dict[str, Any]) -> None:
    _remembered[folder] = seen
    with suppress(OSError):
        (folder / STAMP).write_text(json.dumps(sealed(seen)), encoding="utf-8")


def _read_stamp(folder: Path) -> dict[str, Any]:
    try:
        return unsealed(json.loads((folder / STAMP).read_text(encoding="utf-8")))
    except OSError:
        return _remembered.get(folder, {})
    except ValueError:  # the stamp itself is damaged
        return {}
