"""Write files atomically, and explain in one line why a disk refused one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedRandom
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[BufferedRandom]:
    """A file to write and read; it is moved to `path` when the block ends, and dropped if the block raises."""
    part = path.with_suffix(f".part{os.getpid()}")
    try:
        with part.open("w+b") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def remove_parts(path: Path) -> None:
    """Remove the parts left by processes that were killed while writing this file."""
    for part in path.parent.glob(f"{path.stem}.part*"):
        part.unlink(missing_ok=True)


def disk_error(error: OSError, folder: Path) -> str:
    """One line: the system's reason, the file or folder, and its disk."""
    reason = (error.strerror if error.errno is None else os.strerror(error.errno)) or str(error)
    disk = folder.resolve()
    while not disk.is_mount():
        disk = disk.parent
    return f"{reason.lower()}: {error.filename or folder}, on the disk mounted at {disk}"
