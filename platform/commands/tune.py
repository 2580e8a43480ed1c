"""Search for good settings: a study for every (dataset, method, d), on training data alone.

  permlab tune paper-proteins name=first 'method=[sum,ordering]' train.epochs=60 tune.trials=20
  permlab tune first.yaml --address HOST:PORT
  permlab sweep paper-proteins tuned=first 'method=[sum,ordering]' 'seed=[0,1,2,3,4]'

Words are those of `permlab sweep`, and tune.KEY=VALUE. The same command goes on where it was stopped or killed; a
larger budget goes on from what was found. Studies are named NAME/dataset/method/d10.

"""

import argparse
import os
from pathlib import Path
from typing import Any

from pydantic import Field

from permlab.platform.display.build_bar import build_if_missing
from permlab.platform.display.console import err, out, print_json
from permlab.platform.files.json_files import read_json, write_json
from permlab.platform.files.liveness import driving
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import describe, read_settings
from permlab.platform.sweep.folder import close_folder, open_folder
from permlab.platform.tracking.courier import one_courier
from permlab.platform.tuning.choice import FILE, STUDIES, best_of, write_choices
from permlab.platform.tuning.settings import TuneSettings
from permlab.platform.tuning.trial_task import run_trial


class TuningSettings(SweepSettings):
    """A sweep's settings; `tune` is always there."""

    tune: TuneSettings = Field(TuneSettings(), description="the search")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    keys = [row for row in describe(TuningSettings) if row[0] not in ("seed", "tuned")]
    width = max(len(key) for key, _, _ in keys)
    lines = [f"  {key:<{width}}  {what} ({'none' if value is None else value})" for key, value, what in keys]
    parser.description = "\n".join([f"{parser.description}settings:", *lines])
    parser.add_argument("words", nargs="*", metavar="WORD", help="recipe, YAML file or key=value")
    parser.add_argument("--address", help="Ray cluster to use (default: RAY_ADDRESS, else Ray on this machine)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    settings = read_settings(TuningSettings, args.words)
    code = tune(settings, args.address)
    folder = Path(settings.runs) / "tunings" / settings.name
    document = read_json(folder / STUDIES) or {"studies": []}
    if args.json:
        print_json({"name": settings.name, "exit_code": code, **document})
    else:
        show(document["studies"])
        if (folder / FILE).exists() and not code:
            out.print(
                f"\nchosen settings: {folder / FILE}; use them: permlab sweep … tuned={settings.name}", markup=False
            )
    return code


def tune(settings: SweepSettings, address: str | None, runner: Any = run_trial) -> int:
    """Drive every study to the end of its budget; returns the exit code."""
    from permlab.platform.tuning.lease import open_lease
    from permlab.platform.tuning.prepare import check_tuning, open_studies, storage_url, tuning_folder
    from permlab.platform.tuning.study import database_errors

    for dataset in settings.dataset:
        build_if_missing(dataset)
    options = settings.tune or TuneSettings()
    check_tuning(settings, options)
    folder, url = tuning_folder(settings), storage_url(settings, options)
    lease = open_lease(url)
    try:
        with database_errors(url), driving(folder):
            studies = open_studies(settings, options, lease)
            open_folder(folder, settings, [])
            try:
                if all(tuned.study.over for tuned in studies):
                    return _end(studies, folder, 0, "")
                return _drive(settings, options, studies, runner, folder, address)
            except BaseException:
                close_folder(folder, "FAILED")
                raise
    finally:
        lease.close()


def _drive(
    settings: SweepSettings,
    options: TuneSettings,
    studies: list[Any],
    runner: Any,
    folder: Path,
    address: str | None,
) -> int:
    """Run trials on Ray until every study has had its budget."""
    from permlab.platform.display.live_view import SweepView
    from permlab.platform.run.signals import stop_on_signal
    from permlab.platform.sweep.ray_tasks import Tasks, cluster, refuse_sqlite
    from permlab.platform.tracking.store import tracking_uri
    from permlab.platform.tuning.driver import Driver, TuneProgress

    joins = bool(address or os.environ.get("RAY_ADDRESS"))
    with one_courier(folder, wanted=settings.track) as courier:
        if not joins:
            courier.send()  # it gets ready while Ray does
        with cluster(address) as nodes, Tasks(settings) as tasks, stop_on_signal() as stop_signal:
            if settings.track and joins:
                refuse_sqlite(nodes, tracking_uri(Path(settings.runs)))
                courier.send()
            done = sum(tuned.study.finished for tuned in studies)
            total = len(studies) * options.trials - done if options.trials else 0
            err.print(
                f"{settings.name}: {len(studies)} studies, {budget(options)} each, {done} trials done already, "
                f"{tasks.room} at a time on {nodes} node{'s' * (nodes > 1)}",
                markup=False,
            )
            with SweepView(settings.name, total, "trials") as view:

                def show(progress: TuneProgress) -> None:
                    view.update(progress, view.at_this_pace(progress.finished))

                runs = Path(settings.runs).resolve()
                driver = Driver(studies, tasks, runner, settings.name, runs, settings.max_failed, options.parallel)
                progress = driver.run(show, stop_signal)
                stopped = stop_signal()
        if stopped:
            return _end(studies, folder, 128 + stopped, "stopped; the same command goes on from the checkpoints")
        if progress.failed > settings.max_failed:
            said = f"gave up after {progress.failed} failed trials (max_failed={settings.max_failed})"
            return _end(studies, folder, 1, said)
        return _end(studies, folder, 0, "")


def _end(studies: list[Any], folder: Path, code: int, message: str) -> int:
    """Write down what was found, and how it ended."""
    from permlab.platform.tuning.prepare import choose, summary

    write_json(folder / STUDIES, {"studies": [summary(tuned) for tuned in studies]})
    choices = [choose(tuned) for tuned in studies]
    if not code and not all(choices):
        code, message = 1, "every trial of a study was pruned or failed; give it a larger budget"
    if code:
        (folder / FILE).unlink(missing_ok=True)
    else:
        write_choices([choice for choice in choices if choice], folder)
    close_folder(folder, {0: "FINISHED", 1: "FAILED"}.get(code, "KILLED"))
    if message:
        err.print(f"permlab tune: {message}", markup=False)
    return code


def budget(options: TuneSettings) -> str:
    given = {"trials": options.trials, "epochs": options.epochs, "seconds": options.seconds}
    return " or ".join(f"{value:g} {name}" for name, value in given.items() if value is not None)


def show(studies: list[dict[str, Any]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("study", "trials", "pruned", "epochs saved", "validation", "default", "best"):
        table.add_column(name, justify="left" if name in ("study", "validation") else "right", no_wrap=True)
    lines = []
    for study in studies:
        best = best_of(study)
        default = next((row for row in study["trials"] if row["number"] == 0), None)
        counts = (str(study["finished"]), str(study["pruned"]), f"{study['epochs_saved']:.0%}")
        table.add_row(escape(study["study"]), *counts, study["metric"].upper(), _number(default), _number(best))
        if best:
            chosen = " ".join(f"{key}={_short(value)}" for key, value in best["values"].items())
            lines.append(f"{study['study']}, trial {best['number']}: {chosen or 'the default settings'}")
    out.print(table)
    out.print("\n".join(["", *lines]), markup=False)


def _number(row: dict[str, Any] | None) -> str:
    return "–" if row is None or row["value"] is None else f"{row['value']:.4f}"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
