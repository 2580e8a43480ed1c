"""Search for good settings: one study per (dataset, method, d), on training data alone.

  permlab tune paper-proteins name=first 'method=[sum,ordering]' train.epochs=60 tune.trials=20
  permlab tune first.yaml --address HOST:PORT
  permlab sweep paper-proteins tuned=first 'method=[sum,ordering]' 'seed=[0,1,2,3,4]'

Words are those of `permlab sweep`, and tune.KEY=VALUE. The same command resumes where it was stopped or killed; a
larger budget continues the studies. Studies are named NAME/dataset/method/d10.

"""

import argparse
from pathlib import Path
from typing import Any

from permlab.platform.display.console import err, out, print_json
from permlab.platform.files.json_files import read_json
from permlab.platform.settings.sweep import TuningSettings
from permlab.platform.settings.words import read_settings, settings_help
from permlab.platform.tuning.choice import FILE, STUDIES, best_of
from permlab.platform.tuning.tune import tune
from permlab.tasks.metrics import metric_label

NOT_TUNED = ("seed", "tuned")  # settings of a sweep that a tuning does not have


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = f"{parser.description}{settings_help(TuningSettings, leave_out=('seed', 'tuned'))}"
    parser.add_argument("words", nargs="*", metavar="WORD", help="recipe, YAML file or key=value")
    parser.add_argument("--address", help="Ray cluster to use (default: RAY_ADDRESS, else Ray on this machine)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    settings = read_settings(TuningSettings, args.words)
    code, message = tune(settings, args.address)
    if message:
        err.print(f"permlab tune: {message}", markup=False)
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
        table.add_row(escape(study["study"]), *counts, metric_label(study["metric"]), _number(default), _number(best))
        if best:
            chosen = " ".join(f"{key}={_short(value)}" for key, value in best["values"].items())
            lines.append(f"{study['study']}, trial {best['number']}: {chosen or 'the default settings'}")
    out.print(table)
    out.print("\n".join(["", *lines]), markup=False)


def _number(row: dict[str, Any] | None) -> str:
    return "–" if row is None or row["value"] is None else f"{row['value']:.4f}"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
