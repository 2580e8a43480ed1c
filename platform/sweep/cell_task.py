"""Run one cell in a worker of a sweep. The worker imports torch and Lightning once, for all its cells."""

from typing import Any

from permlab.platform.large_imports import large_imports
from permlab.platform.settings.run import RunSettings


def run_cell_in_worker(settings: RunSettings) -> dict[str, Any]:
    with large_imports():
        from permlab.platform.run.cell import run_cell

    return run_cell(settings)
