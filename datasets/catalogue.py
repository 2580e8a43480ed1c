"""The names of data sets: `qm9`, `qm9,limit=5000`, `tu:MUTAG`, `table:mine.csv,target=logp`, `mine.py:graphs`, …"""

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from permlab.datasets.errors import DatasetNameError, DataUsageError
from permlab.datasets.places import cache_root, remote_address
from permlab.datasets.sources.adversarial import Adversarial
from permlab.datasets.sources.base import Source
from permlab.datasets.sources.code import LOOKS_LIKE_CODE, Factory, FromCode, code_missing
from permlab.datasets.sources.moleculenet import MoleculeNet
from permlab.datasets.sources.pyg import Pyg
from permlab.datasets.sources.qm9 import QM9
from permlab.datasets.sources.synthetic import Synthetic
from permlab.datasets.sources.table import Table
from permlab.datasets.sources.tu import TU, ProteinsFull

__all__ = ["FACTORIES", "SOURCES", "DatasetName", "DatasetNameError", "choices", "parse_name", "register_factory"]

LONGEST = 400  # characters of a name; MLflow takes 500
SOURCES: dict[str, type[Source]] = {
    "qm9": QM9,
    "proteins_full": ProteinsFull,
    "tu": TU,
    "moleculenet": MoleculeNet,
    "synthetic": Synthetic,
    "adversarial": Adversarial,
    "table": Table,
    "pyg": Pyg,
}
FACTORIES: dict[str, Factory] = {}  # of this process, by the head of the data set's name


@dataclass(frozen=True)
class DatasetName:
    """A parsed name. `text` is its one canonical form, `folder` where the cache keeps it."""

    text: str
    source: Source

    @property
    def folder(self) -> str:
        return self.source.folder(self.text)


def register_factory(head: str, call: Callable[..., Any], digest: str) -> None:
    """From now on, data sets named `HEAD[,key=value…]` are what `call(key=value, …)` returns.

    `digest` stands for the code: if it changes, the data sets are built anew.
    """
    if _split(head) != (head, []) or head.partition(":")[0] in SOURCES:
        raise DataUsageError(f"{head!r} cannot be the head of a data set's name")
    FACTORIES[head] = Factory(call, digest)


def parse_name(text: str) -> DatasetName:
    """Read `KIND[:ARGUMENT][,key=value…]`; parameters may come in any order."""
    if len(text) > LONGEST:
        raise DatasetNameError(f"a data set's name has at most {LONGEST} characters, not {len(text)}: {text[:40]}…")
    head, pairs = _split(text)
    parameters = {key: value for key, _, value in sorted(pair.partition("=") for pair in pairs)}
    source = _source(text, head, parameters)
    if len(parameters) < len(pairs):
        raise DatasetNameError(f"data set {text!r} sets a parameter twice")
    name = DatasetName(",".join([head, *source.named(parameters)]), source)
    if isinstance(source, FromCode) and source.factory is None and not _may_be_built(name):
        raise code_missing(head)
    return name


def _may_be_built(name: DatasetName) -> bool:
    """A stored run can be read without the code that made its data, if the data itself is there."""
    return remote_address() is not None or (cache_root() / name.folder).is_dir()


def _split(text: str) -> tuple[str, list[str]]:
    head, *pairs = re.split(r",(?=[A-Za-z_]\w*=)", text.strip())
    return head, pairs


def _source(text: str, head: str, parameters: dict[str, str]) -> Source:
    if head in FACTORIES or (LOOKS_LIKE_CODE.fullmatch(head) and head.partition(":")[0] not in SOURCES):
        return FromCode(head, tuple(parameters.items()), FACTORIES.get(head))
    kind, _, argument = head.partition(":")
    if kind not in SOURCES:
        close = difflib.get_close_matches(kind, SOURCES, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise DatasetNameError(f"unknown data set {text!r}; {hint}{choices()}")
    return SOURCES[kind].from_text(text, argument or None, parameters)


def choices() -> str:
    names = [f"{kind}:{source.argument.upper()}" if source.argument else kind for kind, source in SOURCES.items()]
    return f"choose from {', '.join(names)}"
