"""Makes the report of a sweep, and keeps it with the sweep in MLflow."""

from pathlib import Path

from permlab.platform.display.console import note, progress_bar
from permlab.platform.errors import ConfigError, RunError
from permlab.platform.files.json_files import read_json
from permlab.platform.report.on_disk import undelivered_line
from permlab.platform.report.stored import StoredSweep
from permlab.platform.settings.kinds import folder_name


def make_report(sweep: StoredSweep, runs: Path, folder: Path | None = None) -> Path:
    """Write it to `folder`, by default runs/sweeps/NAME/report; returns the page."""
    from permlab.platform.report.write import write_report
    from permlab.platform.tracking.read import keep_report

    folder = folder or runs / "sweeps" / folder_name(sweep.name) / "report"
    if sweep.undelivered:
        note(undelivered_line(sweep))
    sweep.speed = read_json(runs / "bench" / "train.json")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with progress_bar("drawing", "figures") as progress:
            write_report(sweep, folder, progress)
    except OSError as error:
        raise ConfigError(f"{folder} cannot hold a report: {error.strerror}") from None
    try:
        if sweep.tracked:
            keep_report(folder, sweep.name, runs)
    except RunError as error:
        note(f"the report is written but not in MLflow: {error}")
    return folder / "report.html"


def make_league(sweep: StoredSweep, folder: Path) -> Path:
    """The league as a page of the documentation, in `folder`; returns the page."""
    from permlab.platform.report.league_page import write_league

    if sweep.undelivered:
        note(undelivered_line(sweep))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return write_league(sweep, folder)
    except OSError as error:
        raise ConfigError(f"{folder} cannot hold the league: {error.strerror}") from None
