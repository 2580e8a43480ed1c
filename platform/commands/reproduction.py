"""Write docs/reproduction.md: each of the paper's 336 numbers beside ours, from finished sweeps.

  permlab reproduction --default proteins-paper qm9-paper --fitted proteins-fitted --search fit-proteins
  permlab reproduction --add --default qm9-more   beside what docs/data holds already, from other machines say
  permlab reproduction                            write the page again from docs/data, without any sweep

The sweeps need not be finished: what is missing is named on the page.
"""

import argparse
from pathlib import Path

from permlab.platform.display.console import out, print_json
from permlab.platform.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--default", nargs="*", default=[], metavar="SWEEP", help="sweeps with the default recipe")
    parser.add_argument("--fitted", nargs="*", default=[], metavar="SWEEP", help="sweeps with a fitted recipe")
    parser.add_argument("--search", nargs="*", default=[], metavar="NAME", help="searches of `permlab reproduce`")
    parser.add_argument("--add", action="store_true", help="keep the cells and searches that docs/data holds already")
    parser.add_argument("--runs", default="runs", help="the runs folder (default: runs)")
    parser.add_argument("--docs", default="docs", help="where the page is written, its data in data/ (default: docs)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    from permlab.platform.reproduce.collect import collect_cells, collect_facts
    from permlab.platform.reproduce.page import CELLS, add_data, write_data, write_page

    docs, runs = Path(args.docs), Path(args.runs)
    sweeps = {recipe: names for recipe in ("default", "fitted") if (names := getattr(args, recipe))}
    if sweeps:
        write = add_data if args.add else write_data
        write(docs / "data", collect_cells(runs, sweeps), collect_facts(runs, sweeps, args.search))
    elif args.search:
        raise ConfigError("--search goes with --default or --fitted: name the sweeps too")
    elif args.add:
        raise ConfigError("--add goes with --default or --fitted: name the sweeps to add")
    elif not (docs / "data" / CELLS).exists():
        raise ConfigError(f"{docs / 'data' / CELLS} does not exist; name sweeps with --default or --fitted")
    page = write_page(docs)
    if args.json:
        print_json({"page": str(page)})
    else:
        out.print(f"{page}", markup=False)
    return 0
