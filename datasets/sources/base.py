"""What a source of graphs must provide, and how its parameters are read from `key=value` text."""

import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from permlab.datasets.chunk import GraphChunk
from permlab.datasets.errors import DataUsageError

Progress = Callable[[int, int | None], None]


@dataclasses.dataclass(frozen=True)
class Reading:
    """A source opened for reading: what its graphs are, and the graphs, in chunks."""

    chunks: Iterator[GraphChunk]
    feature_names: tuple[str, ...]
    task: Literal["classification", "regression"]
    target: str
    unit: str = ""
    total: int | None = None
    holdout: int | float = 0.2
    classes: int = 0  # in a classification


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


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
