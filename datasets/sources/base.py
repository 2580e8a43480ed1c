"""What a source of graphs must provide, and how its parameters are read from `key=value` text."""

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from permlab.datasets.chunk import GraphChunk
from permlab.datasets.errors import DataUsageError
from permlab.datasets.left_out import LeftOut

Progress = Callable[[int, int | None], None]


@dataclasses.dataclass(frozen=True)
class Reading:
    """A source opened for reading: what its graphs are, and the graphs, in chunks.

    A classification has one target with `classes` classes counted from 0, or several of 0 and 1, each a question with
    two answers.
    """

    chunks: Iterator[GraphChunk]
    feature_names: tuple[str, ...]
    task: Literal["classification", "regression"]
    targets: tuple[str, ...]
    units: tuple[str, ...] = ()  # one per target; without any, none has one
    default_target: str = ""  # what is learned if a run names no target; empty: all of them
    gaps: bool = False  # labels may be missing: NaN
    edge_feature_names: tuple[str, ...] = ()
    total: int | None = None  # graphs, those included that turn out to have no label
    holdout: int | float = 0.2
    classes: int = 0  # in a classification
    left_out: LeftOut | None = None  # for sources whose rows may give no graph
    best: Mapping[str, float] = dataclasses.field(
        default_factory=dict
    )  # the best possible scores, where they are known


@dataclasses.dataclass(frozen=True)
class Source:
    """Base of the sources; a subclass's fields are the parameters that a user may set."""

    summary: ClassVar[str] = ""
    quick_digest: ClassVar[bool] = True  # cheap enough to compute at every start of a run
    argument: ClassVar[str | None] = None  # the field after the colon (`tu:MUTAG`)

    def digest(self) -> str | None:
        """Digest of the source's data, if it is local; None if it would have to be fetched."""
        raise NotImplementedError

    def read(self, workspace: Path, download: Progress) -> Reading:
        """Open it. `workspace` is an empty folder that is deleted after the build."""
        raise NotImplementedError

    def folder(self, text: str) -> str:
        """Where the cache keeps the data set of this name."""
        return text.replace(":", "-")

    def named(self, parameters: dict[str, str]) -> list[str]:
        """The parameters that are part of the data set's name: those that differ from their defaults."""
        defaults = type(self).__dataclass_fields__
        return [f"{key}={getattr(self, key)}" for key in parameters if getattr(self, key) != defaults[key].default]

    @classmethod
    def from_text(cls, label: str, argument: str | None, parameters: dict[str, str]) -> Self:
        """Check every parameter, then construct; problems are reported together, in one line."""
        known = {field.name: field for field in dataclasses.fields(cls) if field.init}
        known.pop(cls.argument or "", None)
        problems = []
        values: dict[str, Any] = {}
        if cls.argument and not argument:
            problems.append(f"it needs a {cls.argument}, as in {label.split(':')[0]}:{cls.argument.upper()}")
        elif cls.argument:
            values[cls.argument] = argument
        elif argument:
            problems.append(f"it takes nothing after a colon, got {argument!r}")
        for key, text in parameters.items():
            if key == "target" and key not in known:
                chosen = f"target_{text}" if text.isdigit() else text
                problems.append(f"it holds all its targets; choose one for a run with data.target={chosen}")
                continue
            if key not in known:
                choices = ", ".join(known) or "none"
                problems.append(f"unknown parameter {key!r} (choose from {choices})")
                continue
            try:
                values[key] = _convert(text, known[key].type)
            except ValueError:
                kind = getattr(known[key].type, "__name__", known[key].type)
                problems.append(f"{key}={text!r} is not a value of type {kind}")
        if problems:
            raise DataUsageError(f"data set {label!r}: {'; '.join(problems)}")
        return cls(**values)


def _convert(text: str, kind: Any) -> Any:
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if kind in (int, float):
        return kind(text)
    return text


def parse_value(text: str) -> bool | int | float | str:
    """A value of free `key=value` parameters: true, false, a whole number, a number, or else the text itself."""
    for kind in (bool, int, float):
        try:
            value: bool | int | float = _convert(text, kind)
        except ValueError:
            continue
        return value
    return text


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
