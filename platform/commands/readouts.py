"""The readouts: what each one is, how many numbers it gives, and which facts are known about it.

  permlab readouts                                       all that are built in or installed
  permlab readouts pyg:MedianAggregation mine.py:Mine    these: how they are called, and the facts that they state

n rows, d columns, N rows in the largest graph, D columns of the key. Facts are about the map on matrices modulo
row permutations, with the metric d(X, Y) = min over permutations of ‖X − ΠY‖.
"""

import argparse
from inspect import Signature, signature
from typing import Any

from rich.console import Console
from rich.table import Table

from permlab.platform.display.console import note, out, print_json
from permlab.platform.errors import ConfigError
from permlab.platform.plugins.code import load
from permlab.platform.plugins.names import codes_among, entry_names
from permlab.platform.plugins.resolve import readout_named
from permlab.platform.settings.kinds import method_name
from permlab.readouts.base import FACTS, stated_facts
from permlab.readouts.catalogue import CATALOGUE
from permlab.readouts.names import PAPER_METHODS

STYLE: dict[str, Any] = {"box": None, "pad_edge": False, "header_style": "bold"}
WORDS = {True: "yes", False: "no", None: "–"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="a readout, or a plug-in (default: all that are known)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    names = [method_name(name) for name in args.names]
    for head in codes_among(names):
        load(head)
    rows = [describe(name) for name in names or CATALOGUE]
    if not names:
        rows += _installed()
    if args.json:
        print_json(rows)
        return 0
    facts = Table("name", "m", "invariant", "injective", "Lipschitz", "bi-Lipschitz", **STYLE)
    words = Table("name", "formula", "cost", "reference", **STYLE)
    for row in rows:
        stated = [WORDS.get(row[fact], row[fact]) for fact in FACTS]
        facts.add_row(row["name"], row["m"] or "–", *stated)
        words.add_row(row["name"], row["formula"] or row["called"], row["cost"] or "–", row["reference"] or "–")
    page = Console(width=None if out.is_terminal else 100, highlight=False)
    page.print(facts)
    page.print()
    page.print(words)
    if not args.names:
        page.print("\nordering and reduced are injective and bi-Lipschitz with a universal key; the facts above are")
        page.print("those of their default keys. What a search finds: permlab certify ordering --n 3 --d 2")
    return 0


def _installed() -> list[dict[str, Any]]:
    """The readouts of other packages; one that cannot be imported does not hide the rest."""
    rows = []
    for name in entry_names("readouts"):
        try:
            rows.append(describe(name))
        except ConfigError as error:
            note(f"the readout {name} of an installed package cannot be used: {error}")
    return rows


def describe(name: str) -> dict[str, Any]:
    """Its facts as it states them; None where it states nothing."""
    readout, _ = readout_named(name)
    made_by: Any = CATALOGUE[readout] if isinstance(readout, str) else readout
    words = {key: getattr(made_by, attribute, None) for key, attribute in WORDED.items()}
    return {
        "name": name,
        "in_paper": name in PAPER_METHODS,
        "called": _called(made_by),
        **words,
        **dict.fromkeys(FACTS),
        **stated_facts(made_by),
    }


WORDED = {"formula": "formula", "m": "dimension", "cost": "cost", "reference": "reference"}


def _called(made_by: Any) -> str:
    """`MyReadout(in_channels, width=3)`, or the class of an object."""
    if not isinstance(made_by, type):
        return f"an object of {type(made_by).__name__}"
    arguments = [argument.replace(annotation=Signature.empty) for argument in signature(made_by).parameters.values()]
    return f"{made_by.__name__}{Signature(arguments)}"
