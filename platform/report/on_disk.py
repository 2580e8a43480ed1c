"""A stored sweep beside its folder on disk: a store may hold less than the runs have written."""

from pathlib import Path

from permlab.platform.files.json_files import read_json
from permlab.platform.report.stored import StoredSweep

UNDELIVERED = "UNDELIVERED"  # the status of a cell that is finished on disk, but not in the store


def mark_undelivered(sweep: StoredSweep, runs: Path) -> None:
    """Give the cells that the store lacks that status, and count them."""
    missing = sweep.cells["status"] != "FINISHED"
    waiting = [key for key in sweep.cells.loc[missing, "key"] if _finished(runs / "cells" / key)]
    sweep.cells.loc[sweep.cells["key"].isin(waiting), "status"] = UNDELIVERED
    sweep.undelivered = len(waiting)


def _finished(folder: Path) -> bool:
    return (read_json(folder / "result.json") or {}).get("status") == "FINISHED"


def undelivered_line(sweep: StoredSweep) -> str:
    done = len(sweep.finished)
    return (
        f"The store holds {done:,} of the {done + sweep.undelivered:,} cells that are finished on disk; "
        "`permlab deliver` sends the others, then write the report again."
    )
