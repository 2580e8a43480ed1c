"""The readouts: what each one is, how many numbers it gives, and which facts are known about it.

n rows, d columns, N rows in the largest graph, D columns of the key. Facts are about the map on matrices modulo
row permutations, with the metric d(X, Y) = min over permutations of ‖X − ΠY‖.
"""

import argparse
from typing import Any

from rich.console import Console
from rich.table import Table

from permlab.platform.display.console import out, print_json
from permlab.readouts.catalogue import CATALOGUE
from permlab.readouts.names import PAPER_METHODS

STYLE: dict[str, Any] = {"box": None, "pad_edge": False, "header_style": "bold"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    if args.json:
        print_json([describe(name) for name in CATALOGUE])
        return 0
    facts = Table("name", "m", "invariant", "injective", "Lipschitz", "bi-Lipschitz", **STYLE)
    words = Table("name", "formula", "cost", "reference", **STYLE)
    for name in CATALOGUE:
        row = describe(name)
        told = ["yes" if row[fact] else "no" for fact in ("permutation_invariant", "lipschitz", "bi_lipschitz")]
        facts.add_row(name, row["m"], told[0], row["injective"], told[1], told[2])
        words.add_row(name, row["formula"], row["cost"], row["reference"])
    page = Console(width=None if out.is_terminal else 100, highlight=False)
    page.print(facts)
    page.print()
    page.print(words)
    page.print("\nordering and reduced are injective and bi-Lipschitz with a universal key; the facts above are")
    page.print("those of their default keys. What a search finds: permlab certify ordering --n 3 --d 2")
    return 0


def describe(name: str) -> dict[str, Any]:
    readout = CATALOGUE[name].readout
    return {
        "name": name,
        "in_paper": name in PAPER_METHODS,
        "formula": readout.formula,
        "m": readout.dimension,
        "permutation_invariant": readout.permutation_invariant,
        "injective": readout.injective,
        "lipschitz": readout.lipschitz,
        "bi_lipschitz": readout.bi_lipschitz,
        "cost": readout.cost,
        "reference": readout.reference,
    }
