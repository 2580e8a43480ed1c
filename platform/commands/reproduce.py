"""Search for the recipe that explains the paper's training columns: what the paper leaves open, as a search space.

  permlab reproduce paper-proteins name=fit 'method=[sum,ordering]' d=10 train.epochs=60 tune.trials=20
  permlab reproduce paper-qm9 name=fit-qm9 tune.seconds=86400 --address HOST:PORT
  permlab sweep runs/tunings/fit/recipe.yaml name=fitted 'method=[sum,ordering]' d=10 'seed=[0,1,2]'

A trial trains every cell of the grid (method × d × seed) with one recipe and measures the training graphs alone; its
value is the distance to the paper's training columns, in standard deviations of the paper's numbers. Without method and
d the grid is the paper's. At the end the holdout columns are looked at once, for the default and the best recipe. Words
are those of `permlab sweep`, and tune.KEY=VALUE. The same command resumes; a larger budget continues the study.

"""

import argparse
from typing import Any

from permlab.platform.display.console import err, out, print_json
from permlab.platform.files.json_files import read_json
from permlab.platform.reproduce.distance import as_text
from permlab.platform.reproduce.reproduce import OUTCOME, RECIPE, reproduce, search_folder
from permlab.platform.reproduce.settings import ReproduceSettings
from permlab.platform.settings.words import read_settings, settings_help
from permlab.platform.tuning.choice import STUDIES, best_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = f"{parser.description}{settings_help(ReproduceSettings, leave_out=('tuned',))}"
    parser.add_argument("words", nargs="*", metavar="WORD", help="recipe, YAML file or key=value")
    parser.add_argument("--address", help="Ray cluster to use (default: RAY_ADDRESS, else Ray on this machine)")
    parser.add_argument("--search-only", action="store_true", help="do not look at the holdout columns at the end")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    settings = read_settings(ReproduceSettings, args.words)
    code, message = reproduce(settings, args.address, look=not args.search_only)
    if message:
        err.print(f"permlab reproduce: {message}", markup=False)
    folder = search_folder(settings)
    study = (read_json(folder / STUDIES) or {"studies": [None]})["studies"][0]
    outcome = read_json(folder / OUTCOME) or {}
    if args.json:
        print_json({"name": settings.name, "exit_code": code, "study": study, "outcome": outcome})
    elif study:
        _show(study, outcome)
        if (folder / RECIPE).exists():
            out.print(f"\nbest recipe: {folder / RECIPE}", markup=False)
    return code


def _show(study: dict[str, Any], outcome: dict[str, Any]) -> None:
    from rich.table import Table

    best = best_of(study)
    default = next((row for row in study["trials"] if row["number"] == 0), None)
    out.print(f"{study['finished']} trials, {study['pruned']} pruned", markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("distance to the paper", "default", "best", "best of this method alone"):
        table.add_column(name, justify="right" if name != "distance to the paper" else "left")
    rows = {"all": [as_text(row["value"] if row else None) for row in (default, best)]}
    for method in study["method"].split(", "):
        whole = [row["by_method"] for row in study["trials"] if row["value"] is not None]  # pruned: not all cells
        alone = [parts[method] for parts in whole if method in parts]
        pair = [as_text(row["by_method"].get(method) if row else None) for row in (default, best)]
        rows[method] = [*pair, as_text(min(alone, default=None))]
    for name, numbers in rows.items():
        table.add_row(f"training, {name}", *numbers)
    for split in ("train", "holdout", "holdout_perm"):
        if any(split in part for part in outcome.values()):
            pair = [as_text(outcome.get(name, {}).get(split, {}).get("all")) for name in ("default", "fitted")]
            table.add_row(f"at the end, {split}", *pair)
    out.print(table)
    if study["importances"]:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in study["importances"].items())
        out.print(f"\nimportance (PED-ANOVA): {shares}", markup=False)
    if best:
        values = " ".join(f"{name}={value}" for name, value in best["values"].items())
        out.print(f"\nbest, trial {best['number']}: {values}", markup=False)
