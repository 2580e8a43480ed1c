"""Runs a sweep's cells one after another in this process, without Ray, and writes all files of a driver."""

from pathlib import Path

from permlab.platform.display.build_bar import build_if_missing
from permlab.platform.files.liveness import driving
from permlab.platform.report.results import write_results
from permlab.platform.run.cell import run_cell
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import read_settings
from permlab.platform.sweep.folder import close_folder, open_folder
from permlab.platform.sweep.plan import make_plan
from tests.platform.calling import DATA

QUICK = ("train.epochs=2", "train.engine=plain", "d=2")


def drive(runs: Path, *words: str, status: str | None = "FINISHED", most: int | None = None) -> Path:
    """Runs at most `most` cells; without a status the sweep counts as killed. Returns its folder."""
    settings = read_settings(SweepSettings, [DATA, *QUICK, f"runs={runs}", *words])
    build_if_missing(settings.dataset[0])
    plan = make_plan(settings.cells())
    folder = runs / "sweeps" / settings.name
    with driving(folder):
        open_folder(folder, settings, plan)
        for cell in [cell for cell in plan if cell.result is None][:most]:
            run_cell(cell.settings)
        if status:
            write_results(make_plan(settings.cells()), folder)
            close_folder(folder, status)
    return folder
