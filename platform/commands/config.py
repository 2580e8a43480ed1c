"""What can be set, and what the values are.

permlab config show                            the defaults
permlab config show paper-proteins d=50        a recipe with changes, resolved
"""

import argparse

from rich.markup import escape
from rich.table import Table

from permlab.platform.display.console import out, print_json
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import describe, read_settings, recipes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("show",))
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help=f"recipe ({', '.join(recipes())}), YAML file or key=value"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    settings = read_settings(RunSettings, args.words)
    if args.json:
        print_json(settings.model_dump(mode="json"))
        return 0
    defaults = {key: value for key, value, _ in describe(RunSettings)}
    table = Table("setting", "value", "what it does", box=None, pad_edge=False, header_style="bold")
    for key, value, description in describe(RunSettings, settings):
        shown = "none" if value is None else escape(str(value))
        table.add_row(key, f"[bold]{shown}[/bold]" if value != defaults[key] else shown, description)
    out.print(table)
    return 0
