"""Any data set of PyG by its class: `pyg:ZINC,subset=true,split=train`. PyG downloads and reads it."""

import difflib
import errno
import inspect
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from permlab.datasets.errors import DataError, DataUsageError
from permlab.datasets.places import cache_root, safe_folder
from permlab.datasets.sources.base import Progress, Reading, Source, parse_value
from permlab.datasets.sources.objects import read_objects


@dataclass(frozen=True)
class Pyg(Source):
    """The parameters are the arguments of PyG's class; `root`, where it keeps its files, is in the cache by default."""

    summary: ClassVar[str] = "any class of torch_geometric.datasets, as in pyg:ZINC,subset=true; its arguments"
    quick_digest: ClassVar[bool] = False
    argument: ClassVar[str] = "name"

    name: str
    parameters: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_text(cls, label: str, argument: str | None, parameters: dict[str, str]) -> Self:
        if not argument or not argument.isidentifier():
            raise DataUsageError(f"data set {label!r}: it needs the name of a class of PyG, as in pyg:ZINC")
        return cls(argument, tuple(parameters.items()))

    def digest(self) -> str | None:
        return None  # PyG's files are not checked again: --force rebuilds

    def folder(self, text: str) -> str:
        return safe_folder("pyg", self.name, text)

    def named(self, parameters: dict[str, str]) -> list[str]:
        return [f"{key}={value}" for key, value in self.parameters]

    def read(self, workspace: Path, download: Progress) -> Reading:
        return read_objects(self._dataset(), workspace, f"pyg:{self.name}", {})

    def _dataset(self) -> Any:
        import torch_geometric.datasets as catalogue  # imported here, because it is slow

        if self.name not in catalogue.__all__:
            close = difflib.get_close_matches(self.name, catalogue.__all__, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "; see torch_geometric.datasets"
            raise DataUsageError(f"PyG has no data set {self.name!r}{hint}")
        kind = getattr(catalogue, self.name)
        arguments: dict[str, Any] = {key: parse_value(text) for key, text in self.parameters}
        signature = inspect.signature(kind)
        if "root" in signature.parameters:
            arguments["root"] = str(Path(arguments.get("root", cache_root() / "pyg" / self.name)).expanduser())
        try:
            signature.bind(**arguments)
        except TypeError as error:
            raise DataUsageError(
                f"pyg:{self.name}: {error}; its arguments are {', '.join(signature.parameters)}"
            ) from None
        try:
            return kind(**arguments)
        except Exception as error:  # whatever PyG, its parsers and its downloads raise
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            said = str(error) or traceback.extract_tb(error.__traceback__)[-1].line  # an assertion has only its line
            reason = " ".join(f"{type(error).__name__}: {said}".split())
            where = f" (its files belong into {arguments['root']})" if "root" in arguments else ""
            raise DataError(f"PyG cannot read or download {self.name}{where}: {reason}") from error
