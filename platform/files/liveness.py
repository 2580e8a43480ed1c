"""Check which processes are alive by locks on files: the system releases a lock however its process ends."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DRIVER = ".driver.lock"  # in the folder of a sweep or a tuning


@contextmanager
def holding(path: Path) -> Iterator[None]:
    """Hold the file while the block runs; any number of processes may."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


def is_held(path: Path) -> bool:
    """Is there a process that holds the file, or has locked it with filelock?"""
    try:
        with path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:  # held; or not ours to lock, so it may be held
        return True
    return False


def remove_leftovers(folder: Path, pattern: str) -> None:
    """Remove files whose holders were killed."""
    for path in folder.glob(pattern):
        if not is_held(path):
            path.unlink(missing_ok=True)


@contextmanager
def driving(folder: Path) -> Iterator[None]:
    """Mark this process as the driver of the folder's sweep or tuning while the block runs."""
    folder.mkdir(parents=True, exist_ok=True)
    with holding(folder / DRIVER):
        yield


def is_driven(folder: Path) -> bool:
    return is_held(folder / DRIVER)
