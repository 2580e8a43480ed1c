"""Graphs made by a user's own function: `mine.py:graphs`, or `package.module:graphs`, with key=value parameters.

The function is found and loaded elsewhere; here it is only called. It returns a PyG Dataset or any iterable of `Data`,
or a pair of these and a dict that says what they are, see `permlab.datasets.sources.objects`.
"""

import errno
import hashlib
import inspect
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from permlab.datasets.errors import DataError, DatasetNameError, DataUsageError
from permlab.datasets.places import safe_folder
from permlab.datasets.sources.base import Progress, Reading, Source, parse_value
from permlab.datasets.sources.objects import read_objects

LOOKS_LIKE_CODE = re.compile(r"(.+\.py|[^\W\d]\w*(\.[^\W\d]\w*)+):[^\W\d]\w*")


@dataclass(frozen=True)
class Factory:
    """A function that makes graphs, and a digest of its code: a new digest rebuilds what it made."""

    call: Callable[..., Any]
    digest: str


@dataclass(frozen=True)
class FromCode(Source):
    """Without its factory it can be opened if it is in the cache, but not built."""

    summary: ClassVar[str] = "graphs made by a function of yours"

    head: str
    parameters: tuple[tuple[str, str], ...] = ()
    factory: Factory | None = None

    def digest(self) -> str | None:
        if self.factory is None:
            return None
        return hashlib.sha256(f"{self.factory.digest} {self.parameters}".encode()).hexdigest()

    def folder(self, text: str) -> str:
        return safe_folder("code", self.head.rpartition("/")[2], text)

    def named(self, parameters: dict[str, str]) -> list[str]:
        return [f"{key}={value}" for key, value in self.parameters]

    def read(self, workspace: Path, download: Progress) -> Reading:
        if self.factory is None:
            raise code_missing(self.head)
        values = {key: parse_value(text) for key, text in self.parameters}
        try:
            inspect.signature(self.factory.call).bind(**values)
        except TypeError as error:
            raise DataUsageError(f"{self.head} cannot be called with these parameters: {error}") from None
        with _named_errors(self.head):
            made = self.factory.call(**values)
            paired = isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], Mapping)
            graphs, facts = made if paired else (made, {})
            return read_objects(graphs, workspace, self.head, facts)


def code_missing(head: str) -> DatasetNameError:
    return DatasetNameError(
        f"data set {head!r} is made by code that has to be named on the command line; only a data set that is built "
        "already can be read without it"
    )


@contextmanager
def _named_errors(head: str) -> Iterator[None]:
    """An exception of the user's code as one line that says where it was raised; the exception itself is its cause."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(f"{head} raised {what} ({Path(place.filename).name}, line {place.lineno})") from error
