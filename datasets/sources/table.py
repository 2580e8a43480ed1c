"""A user's own molecules: a CSV or Parquet file with a column of SMILES and a column with the target."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from permlab.datasets.chunk import GraphChunk, make_chunk
from permlab.datasets.errors import DataError, DataUsageError
from permlab.datasets.molecules import FEATURE_NAMES, read_in_parallel
from permlab.datasets.sources.base import Progress, Reading, Source, file_digest

ROWS_A_CHUNK = 2048


@dataclass(frozen=True)
class Table(Source):
    """Rows are numbered from 1, the header not counted. A target with only the values 0 and 1 is a classification."""

    summary: ClassVar[str] = "your own molecules, CSV or Parquet; smiles=COLUMN, target=COLUMN"
    argument: ClassVar[str] = "file"

    file: str
    smiles: str = "smiles"
    target: str = "y"
    unit: str = ""
    skip_invalid: bool = False

    def digest(self) -> str:
        return file_digest(self._path())

    def read(self, workspace: Path, download: Progress) -> Reading:
        source = self._open()
        total, classification = self._check_target(source)
        return Reading(
            chunks=self._chunks(source, total),
            feature_names=FEATURE_NAMES,
            task="classification" if classification else "regression",
            target=self.target,
            unit=self.unit,
            total=total,
            classes=2 if classification else 0,
        )

    def _path(self) -> Path:
        path = Path(self.file).expanduser()
        if not path.is_file():
            raise DataUsageError(f"there is no file {self.file}")
        if path.suffix.lower() not in (".csv", ".parquet"):
            raise DataUsageError(f"{self.file} ends in {path.suffix!r}; a table is a .csv or a .parquet file")
        return path

    def _open(self) -> Any:
        """A pyarrow Dataset."""
        from pyarrow.dataset import dataset  # imported here, because it imports pandas, which is slow

        path = self._path()
        try:
            source = dataset(path, format=path.suffix.lower().removeprefix("."))
            names = source.schema.names
        except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
            raise DataError(f"{self.file} cannot be read as {path.suffix[1:]}: {_first_line(error)}") from None
        for role in ("smiles", "target"):
            if getattr(self, role) not in names:
                raise DataUsageError(
                    f"{self.file} has no column {getattr(self, role)!r}; name one with {role}=, "
                    f"choose from {', '.join(names)}"
                )
        if pa.types.is_null(source.schema.field(self.target).type) or not (
            pa.types.is_floating(source.schema.field(self.target).type)
            or pa.types.is_integer(source.schema.field(self.target).type)
            or pa.types.is_boolean(source.schema.field(self.target).type)
        ):
            raise DataUsageError(
                f"{self.file}: column {self.target!r} holds {source.schema.field(self.target).type}, not numbers"
            )
        return source

    def _check_target(self, source: Any) -> tuple[int, bool]:
        """One pass over the target alone: how many rows, and whether it is a class."""
        rows, only_zero_one = 0, True
        for batch in self._batches(source, [self.target]):
            values = _numbers(batch.column(self.target))
            bad = np.flatnonzero(~np.isfinite(values))
            if len(bad) and not self.skip_invalid:
                raise DataError(
                    f"{self.file}, row {rows + bad[0] + 1}: the target {self.target!r} is missing or not finite; "
                    "fix the row or pass skip_invalid=true"
                )
            rows += len(values)
            only_zero_one &= bool(np.isin(values[np.isfinite(values)], (0, 1)).all())
        if not rows:
            raise DataError(f"{self.file} has no rows")
        return rows, only_zero_one

    def _batches(self, source: Any, columns: list[str]) -> Iterator[Any]:
        try:
            yield from source.to_batches(columns=columns, batch_size=ROWS_A_CHUNK)
        except pa.ArrowInvalid as error:
            raise DataError(f"{self.file} cannot be read: {_first_line(error)}") from None

    def _chunks(self, source: Any, total: int) -> Iterator[GraphChunk]:
        targets: list[np.ndarray] = []

        def smiles() -> Iterator[list[str]]:
            for batch in self._batches(source, [self.smiles, self.target]):
                targets.append(_numbers(batch.column(self.target)))
                yield [str(text or "") for text in batch.column(self.smiles).to_pylist()]

        row = 0
        for molecules in read_in_parallel(smiles()):
            y = targets.pop(0)
            if not molecules.valid.all() and not self.skip_invalid:
                bad = row + int(np.flatnonzero(~molecules.valid)[0])
                raise DataError(
                    f"{self.file}, row {bad + 1}: {self._smiles_of(source, bad)!r} is not a SMILES that RDKit reads; "
                    "fix the row or pass skip_invalid=true"
                )
            chunk = _finite(molecules, y, row)
            row += len(y)
            if len(chunk):
                yield chunk
        if row != total:
            raise DataError(f"{self.file} changed while it was read")

    def _smiles_of(self, source: Any, row: int) -> str:
        return str(source.take(pa.array([row]), columns=[self.smiles]).column(0)[0].as_py())


def _finite(molecules: Any, y: np.ndarray, first_row: int) -> GraphChunk:
    """The molecules that parsed, without those whose target is missing."""
    graph_id = first_row + np.flatnonzero(molecules.valid)
    y = y[molecules.valid]
    keep = np.isfinite(y)
    if keep.all():
        return make_chunk(molecules.x, molecules.counts, molecules.src, molecules.dst, y, graph_id, molecules.group)
    node_keep = np.repeat(keep, molecules.counts)
    new_row = np.cumsum(node_keep) - 1
    edge_keep = node_keep[molecules.src]
    return make_chunk(
        molecules.x[node_keep],
        molecules.counts[keep],
        new_row[molecules.src[edge_keep]],
        new_row[molecules.dst[edge_keep]],
        y[keep],
        graph_id[keep],
        molecules.group[keep],
    )


def _numbers(column: pa.Array) -> np.ndarray:
    return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
