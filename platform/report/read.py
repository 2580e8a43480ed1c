"""Reads a sweep back: from the runs folder if all of it lies there, else from MLflow."""

from pathlib import Path

from permlab.platform.errors import ConfigError
from permlab.platform.report.on_disk import mark_undelivered, read_on_disk
from permlab.platform.report.stored import StoredSweep


def read_stored(name: str, runs: Path) -> StoredSweep:
    """A sweep that was not tracked, or has not been delivered, is read from the runs folder, complete or not."""
    on_disk = read_on_disk(name, runs)
    if on_disk and (len(on_disk.finished) == len(on_disk.cells) or not on_disk.tracked):
        return on_disk
    from permlab.platform.tracking.read import read_sweep

    try:
        sweep = read_sweep(name, runs)
    except ConfigError:
        if on_disk:
            return on_disk
        raise
    mark_undelivered(sweep, runs)
    return sweep
