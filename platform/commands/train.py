"""Train one cell: a data set, a readout, a width d, a seed.

  permlab train dataset=proteins_full method=ordering d=10 seed=0
  permlab train quick method=sort train.epochs=3
  permlab train my.yaml d=50

Words are recipes (paper-proteins, paper-qm9, quick), YAML files and key=value; later ones override earlier ones.
A run that was stopped or killed resumes from its checkpoint; a finished run is shown again.

"""

import argparse
import importlib
from pathlib import Path
from typing import Any

from rich.table import Table

from permlab.platform.display.console import out, print_json
from permlab.platform.large_imports import large_imports
from permlab.platform.run.train import train
from permlab.platform.settings.run import RunSettings, cell_folder
from permlab.platform.settings.words import read_settings, settings_help


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = f"{parser.description}{settings_help(RunSettings)}"
    parser.add_argument("words", nargs="*", metavar="WORD", help="recipe, YAML file or key=value")
    parser.add_argument("--fresh", action="store_true", help="run it again from the start, even if it is finished")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    settings = read_settings(RunSettings, args.words)
    with large_imports():
        importlib.import_module("permlab.platform.run.cell")
    result = train(settings, fresh=args.fresh)
    if args.json:
        from permlab.platform.run.record import SUMMARY

        print_json({key: result[key] for key in SUMMARY})
    else:
        folder = cell_folder(settings, result["key"])
        _show(result, None if settings.temporary else folder)
    return 0


def _show(result: dict[str, Any], folder: Path | None) -> None:
    metrics = result["metrics"]
    names = list(next(iter(metrics.values())))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    for split, values in metrics.items():
        table.add_row(split, *("–" if values[name] is None else f"{values[name]:.4f}" for name in names))
    out.print(table)
    epochs = f"{result['epochs']} epoch{'s' * (result['epochs'] != 1)}"
    out.print(
        f"{result['method']} d={result['d']} seed={result['seed']} on {result['dataset']}: {epochs}, "
        f"{result['parameters']:,} parameters, {result['seconds']:.1f} s",
        markup=False,
    )
    if result.get("ended_early"):
        out.print(f"a callback ended the training {result['ended_early']}", markup=False)
    if result.get("best_epoch"):
        out.print(f"weights of epoch {result['best_epoch']}, the best on the validation part", markup=False)
    name, reason = result["engine"]["name"], result["engine"]["reason"]
    out.print(f"engine: {name} ({reason})" if reason else f"engine: {name}", markup=False)
    if folder:
        out.print(f"files: {folder}; use its weights: permlab predict {folder}", markup=False)
