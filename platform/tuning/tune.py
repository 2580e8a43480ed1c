"""Runs a tuning from its settings to the chosen ones: studies on Optuna, their trials on Ray."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from permlab.platform.display.build_bar import build_if_missing
from permlab.platform.display.console import doing, note
from permlab.platform.errors import Ended
from permlab.platform.files.json_files import write_json
from permlab.platform.files.liveness import driving
from permlab.platform.run.stored_result import FAILED, FINISHED, STOPPED
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.sweep.folder import close_folder, closed_on_error, open_folder
from permlab.platform.tracking.courier import one_courier
from permlab.platform.tuning.choice import FILE, STUDIES, write_choices
from permlab.platform.tuning.settings import TuneSettings
from permlab.platform.tuning.trial_task import run_trial

Open = Callable[[Any, TuneSettings, Any], list[Any]]  # settings, options, lease → studies
End = Callable[[list[Any], Path, Ended], Ended]  # what is written when the studies have ended


def tune(settings: SweepSettings, address: str | None, runner: Any = run_trial) -> Ended:
    """Drive every study to the end of its budget."""
    with doing(f"{settings.name}: opening the studies", in_log=False):
        from permlab.platform.tuning.prepare import check_tuning, open_studies

    for dataset in settings.dataset:
        build_if_missing(dataset)
    options = settings.tune or TuneSettings()
    check_tuning(settings, options)
    return run_studies(settings, options, address, runner, open_studies, _end)


def run_studies(
    settings: SweepSettings, options: TuneSettings, address: str | None, runner: Any, open_them: Open, end: End
) -> Ended:
    """Open the studies of a tuning and drive them; `end` writes what comes of them."""
    with doing(f"{settings.name}: opening the studies", in_log=False):
        from permlab.platform.tuning.lease import open_lease
        from permlab.platform.tuning.prepare import storage_url, tuning_folder
        from permlab.platform.tuning.study import database_errors

    folder, url = tuning_folder(settings), storage_url(settings, options)
    lease = open_lease(url)
    try:
        with database_errors(url), driving(folder):
            with doing(f"{settings.name}: opening the studies", in_log=False):
                studies = open_them(settings, options, lease)
            open_folder(folder, settings, [])
            with closed_on_error(folder):
                if all(tuned.study.over for tuned in studies):
                    return end(studies, folder, Ended())
                return _drive(settings, options, studies, runner, folder, address, end)
    finally:
        lease.close()


def _drive(
    settings: SweepSettings,
    options: TuneSettings,
    studies: list[Any],
    runner: Any,
    folder: Path,
    address: str | None,
    end: End,
) -> Ended:
    """Run trials on Ray until every study has used its budget."""
    from permlab.platform.display.live_view import SweepView
    from permlab.platform.run.signals import stop_on_signal
    from permlab.platform.sweep.ray_cluster import cluster, refuse_sqlite, starting
    from permlab.platform.sweep.ray_tasks import Tasks
    from permlab.platform.tracking.store import tracking_uri
    from permlab.platform.tuning.driver import Driver, TuneProgress

    joins = bool(address or os.environ.get("RAY_ADDRESS"))
    with one_courier(folder, wanted=settings.track) as courier:
        if not joins:
            courier.send()  # it starts while Ray does
        done = sum(tuned.study.finished for tuned in studies)
        total = len(studies) * options.trials - done if options.trials else 0
        note(f"{settings.name}: {len(studies)} studies, {budget(options)} each, {done} trials done already")
        with ExitStack() as stack:
            with doing(starting(address)):
                nodes = stack.enter_context(cluster(address))
            tasks = stack.enter_context(Tasks(settings))
            stop_signal = stack.enter_context(stop_on_signal())
            if settings.track and joins:
                refuse_sqlite(nodes, tracking_uri(Path(settings.runs)))
                courier.send()
            note(f"{tasks.room} at a time on {nodes} node{'s' * (nodes > 1)}")
            with SweepView(settings.name, total, "trials") as view:

                def show(progress: TuneProgress) -> None:
                    view.update(progress, lambda: view.at_this_pace(progress.finished))

                runs = Path(settings.runs).resolve()
                driver = Driver(studies, tasks, runner, settings.name, runs, settings.max_failed, options.parallel)
                progress = driver.run(show, stop_signal)
                stopped = stop_signal()
        if stopped:
            message = "stopped; the same command resumes from the checkpoints"
            return end(studies, folder, Ended(128 + stopped, message))
        if progress.failed > settings.max_failed:
            message = f"gave up after {progress.failed} failed trials (max_failed={settings.max_failed})"
            return end(studies, folder, Ended(1, message))
        return end(studies, folder, Ended())


def _end(studies: list[Any], folder: Path, ended: Ended) -> Ended:
    """Write the chosen settings, and how the tuning ended."""
    from permlab.platform.tuning.prepare import choose, summary

    write_json(folder / STUDIES, {"studies": [summary(tuned) for tuned in studies]})
    choices = [choose(tuned) for tuned in studies]
    if not ended.code and not all(choices):
        ended = Ended(1, "every trial of a study was pruned or failed; give it a larger budget")
    if ended.code:
        (folder / FILE).unlink(missing_ok=True)
    else:
        write_choices([choice for choice in choices if choice], folder)
    close_folder(folder, {0: FINISHED, 1: FAILED}.get(ended.code, STOPPED))
    return ended


def budget(options: TuneSettings) -> str:
    given = {"trials": options.trials, "epochs": options.epochs, "seconds": options.seconds}
    return " or ".join(f"{value:g} {name}" for name, value in given.items() if value is not None)
