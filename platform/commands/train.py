"""Train one cell: a data set, a readout, a width d, a seed.

  permlab train dataset=proteins_full method=ordering d=10 seed=0
  permlab train quick method=sort train.epochs=3
  permlab train my.yaml d=50

Words are recipes (paper-proteins, paper-qm9, quick), YAML files and key=value, later ones over earlier ones.
A run that was stopped or killed goes on from its checkpoint; one that is done is shown again.

"""

import argparse
import subprocess
import sys
import traceback
from typing import Any

from rich.table import Table

from permlab.platform.building import build_if_missing
from permlab.platform.config import RunSettings
from permlab.platform.console import err, out, print_json
from permlab.platform.settings import describe, read_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    keys = describe(RunSettings)
    width = max(len(key) for key, _, _ in keys)
    lines = [f"  {key:<{width}}  {what} ({'none' if value is None else value})" for key, value, what in keys]
    parser.description = "\n".join([f"{parser.description}settings:", *lines])
    parser.add_argument("words", nargs="*", metavar="WORD", help="recipe, YAML file or key=value")
    parser.add_argument("--fresh", action="store_true", help="run it again from the start, even if it is done")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    settings = read_settings(RunSettings, args.words)
    result = train(settings, fresh=args.fresh)
    if args.json:
        print_json({key: value for key, value in result.items() if key not in ("status", "parameters", "ended")})
    else:
        _show(result)
    return 0


def train(settings: RunSettings, fresh: bool = False) -> dict[str, Any]:
    """Run the cell, or give its stored result; returns the document of result.json."""
    from permlab.platform.epoch_bar import EpochBar
    from permlab.platform.errors import RunError, RunStopped
    from permlab.platform.record import FAILED, KILLED, Record
    from permlab.platform.signals import stop_on_signal
    from permlab.platform.trial import Trial

    build_if_missing(settings.dataset)
    trial = Trial.prepare(settings)
    record = Record(trial)
    if fresh:
        for name in ("checkpoint.pt", "delivered.json", "result.json"):
            (trial.folder / name).unlink(missing_ok=True)
    if done := record.finished:
        err.print(f"{settings.name} is done already ({trial.folder}); --fresh runs it again", markup=False)
        return done
    record.start()
    courier = _send_courier(str(trial.folder)) if settings.track else None
    bar = EpochBar(settings.name, settings.train.epochs)
    try:
        with stop_on_signal() as stop_signal:
            result = trial.run(callbacks=[bar], on_epoch=record.epochs, stop_signal=stop_signal)
        document = record.finish(result)
    except RunStopped as stopped:
        record.end(KILLED, str(stopped))
        raise
    except KeyboardInterrupt:
        record.end(KILLED, "interrupted")
        raise
    except Exception as error:
        record.end(FAILED, str(error), traceback.format_exc())
        if isinstance(error, RunError):
            raise RunError(f"{settings.name}: {error}") from None
        raise
    finally:
        bar.progress.stop()
        if courier:
            _await_courier(courier)
    return document


def _send_courier(folder: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "permlab.platform.tracking", folder]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def _await_courier(courier: subprocess.Popen[str]) -> None:
    try:
        _, errors = courier.communicate(timeout=60)
        reason = errors.strip().splitlines()[-1][:200] if courier.returncode and errors.strip() else ""
    except subprocess.TimeoutExpired:
        courier.kill()
        reason = "no answer within a minute"
    if courier.returncode:
        err.print(f"not in MLflow yet: {reason}. Nothing is lost; later: permlab deliver", markup=False)


def _show(result: dict[str, Any]) -> None:
    metrics = result["metrics"]
    names = list(next(iter(metrics.values())))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    for split, values in metrics.items():
        table.add_row(split, *("–" if values[name] is None else f"{values[name]:.4f}" for name in names))
    out.print(table)
    out.print(
        f"{result['method']} d={result['d']} seed={result['seed']} on {result['dataset']}: {result['epochs']} epochs, "
        f"{result['parameters']:,} parameters, {result['seconds']:.1f} s",
        markup=False,
    )
