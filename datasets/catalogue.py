"""The names of data sets: `qm9`, `qm9,limit=5000`, `tu:MUTAG`, `table:mine.csv,target=logp`, …"""

import difflib
import re
from dataclasses import dataclass

from permlab.datasets.errors import DatasetNameError
from permlab.datasets.sources.base import Source
from permlab.datasets.sources.qm9 import QM9
from permlab.datasets.sources.synthetic import Synthetic
from permlab.datasets.sources.table import Table
from permlab.datasets.sources.tu import TU, ProteinsFull

LONGEST = 400  # characters of a name; MLflow takes 500
SOURCES: dict[str, type[Source]] = {
    "qm9": QM9,
    "proteins_full": ProteinsFull,
    "tu": TU,
    "synthetic": Synthetic,
    "table": Table,
}


@dataclass(frozen=True)
class DatasetName:
    """A parsed name. `text` is its one canonical form, `folder` where the cache keeps it."""

    text: str
    source: Source

    @property
    def folder(self) -> str:
        return self.source.folder(self.text)


def parse_name(text: str) -> DatasetName:
    """Read `KIND[:ARGUMENT][,key=value…]`; parameters may come in any order."""
    if len(text) > LONGEST:
        raise DatasetNameError(f"a data set's name has at most {LONGEST} characters, not {len(text)}: {text[:40]}…")
    head, *pairs = re.split(r",(?=[A-Za-z_]+=)", text.strip())
    kind, _, argument = head.partition(":")
    if kind not in SOURCES:
        close = difflib.get_close_matches(kind, SOURCES, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise DatasetNameError(f"unknown data set {text!r}; {hint}{choices()}")
    parameters = dict(sorted(tuple(pair.split("=", 1)) for pair in pairs))
    if len(parameters) < len(pairs):
        raise DatasetNameError(f"data set {text!r} sets a parameter twice")
    source = SOURCES[kind].from_text(text, argument or None, parameters)
    return DatasetName(",".join([head, *source.named(parameters)]), source)


def choices() -> str:
    names = [f"{kind}:{source.argument.upper()}" if source.argument else kind for kind, source in SOURCES.items()]
    return f"choose from {', '.join(names)}"
