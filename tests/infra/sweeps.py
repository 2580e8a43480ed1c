"""What a sweep has stored so far, and what it would store if nothing disturbed it."""

from pathlib import Path
from typing import Any

from permlab.platform.files.json_files import read_json
from permlab.platform.run.histories import read_history
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import read_settings


def epochs_stored(runs: Path) -> int:
    """Over all cells."""
    return sum(len(read_history(path.parent)) for path in runs.glob("cells/*/history.jsonl"))


def finished_metrics(runs: Path) -> dict[str, Any]:
    """The metrics of every finished cell, by its key."""
    results = {path.parent.name: read_json(path) for path in runs.glob("cells/*/result.json")}
    return {key: result["metrics"] for key, result in results.items() if result["status"] == "FINISHED"}


def undisturbed_metrics(grid: list[str], runs: Path) -> dict[str, Any]:
    """The same grid, cell after cell, in this process: metrics by key."""
    from permlab.platform.run.cell import run_cell

    cells = read_settings(SweepSettings, [*grid, f"runs={runs}"]).cells()
    return {result["key"]: result["metrics"] for result in map(run_cell, cells)}
