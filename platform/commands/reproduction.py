"""Write docs/reproduction.md: each of the paper's 336 numbers beside ours, from the cells of sweeps.

  permlab reproduction --default proteins-paper qm9-paper --fitted proteins-fitted --search fit-proteins
  permlab reproduction                            write the page again from docs/data, without any sweep

What is named is added to what docs/data holds already, from other machines say; the same command again changes nothing.
Sweeps need not be finished: what is missing is named on the page, and added later by the same command.
"""

import argparse
from pathlib import Path

from permlab.platform.display.console import out, print_json
from permlab.platform.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--default", nargs="*", default=[], metavar="SWEEP", help="sweeps with the default recipe")
    parser.add_argument("--fitted", nargs="*", default=[], metavar="SWEEP", help="sweeps with a fitted recipe")
    parser.add_argument("--search", nargs="*", default=[], metavar="NAME", help="searches of `permlab reproduce`")
    parser.add_argument("--replace", action="store_true", help="drop what docs/data holds, instead of adding to it")
    parser.add_argument("--runs", default="runs", help="the runs folder (default: runs)")
    parser.add_argument("--docs", default="docs", help="where the page is written, its data in data/ (default: docs)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    from permlab.platform.reproduce.collect import OURS, collect
    from permlab.platform.reproduce.page import add_data, write_data, write_page

    docs = Path(args.docs)
    sweeps = {recipe: names for recipe in OURS if (names := getattr(args, recipe))}
    if args.replace and not sweeps:
        raise ConfigError("--replace goes with --default or --fitted: name the sweeps")
    if sweeps or args.search:
        write = write_data if args.replace else add_data
        write(docs / "data", *collect(Path(args.runs), sweeps, args.search))
    page = write_page(docs)
    if args.json:
        print_json({"page": str(page)})
    else:
        out.print(f"{page}", markup=False)
    return 0
