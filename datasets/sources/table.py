"""A user's own molecules: a CSV or Parquet file with a column of SMILES and one or several columns of targets."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from permlab.datasets.chunk import GraphChunk, make_chunk
from permlab.datasets.errors import DataError, DataUsageError
from permlab.datasets.molecules import EDGE_FEATURE_NAMES, FEATURE_NAMES, Molecules, read_in_parallel
from permlab.datasets.places import safe_folder
from permlab.datasets.sources.base import Progress, Reading, Source, file_digest

ROWS_A_CHUNK = 2048


class _Labels(NamedTuple):
    """What one pass over the targets finds."""

    rows: int
    only_zero_one: bool
    gaps: bool


@dataclass(frozen=True)
class Table(Source):
    """Rows are numbered from 1, the header not counted. Targets with only the values 0 and 1 are a classification.

    `target` is a column, several joined by +, or * for all columns of numbers. With several, a row may lack some of
    its labels; a row without any is left out.
    """

    summary: ClassVar[str] = "your own molecules, CSV or Parquet; smiles=COLUMN, target=COLUMN, COLUMN+COLUMN or *"
    argument: ClassVar[str] = "file"

    file: str
    smiles: str = "smiles"
    target: str = "y"
    unit: str = ""
    skip_invalid: bool = False

    def digest(self) -> str:
        return file_digest(self._path())

    def folder(self, text: str) -> str:
        path = Path(self.file).expanduser().resolve()
        return safe_folder("table", path.stem, f"{path} {text}")

    def read(self, workspace: Path, download: Progress) -> Reading:
        source = self._open()
        targets = self._targets(source.schema)
        labels = self._check_labels(source, targets)
        return Reading(
            chunks=self._chunks(source, targets, labels.rows),
            feature_names=FEATURE_NAMES,
            edge_feature_names=EDGE_FEATURE_NAMES,
            task="classification" if labels.only_zero_one else "regression",
            targets=tuple(targets),
            units=(self.unit,) * len(targets),
            gaps=labels.gaps,
            total=labels.rows,
            classes=2 if labels.only_zero_one else 0,
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
        self._check_column("smiles", self.smiles, names)
        return source

    def _check_column(self, role: str, column: str, names: list[str]) -> None:
        if column not in names:
            raise DataUsageError(
                f"{self.file} has no column {column!r}; name one with {role}=, choose from {', '.join(names)}"
            )

    def _targets(self, schema: pa.Schema) -> list[str]:
        """The columns that `target` names."""
        if self.target == "*":
            columns = [field.name for field in schema if _is_number(field.type) and field.name != self.smiles]
            if not columns:
                raise DataUsageError(f"{self.file} has no column of numbers for target=*")
            return columns
        columns = [self.target] if self.target in schema.names else self.target.split("+")
        for column in columns:
            self._check_column("target", column, schema.names)
            if not _is_number(schema.field(column).type):
                raise DataUsageError(f"{self.file}: column {column!r} holds {schema.field(column).type}, not numbers")
        if len(set(columns)) < len(columns):
            raise DataUsageError(f"{self.file}: target={self.target} names a column twice")
        return columns

    def _check_labels(self, source: Any, targets: list[str]) -> _Labels:
        """One pass over the targets alone."""
        rows, only_zero_one, gaps = 0, True, False
        for batch in self._batches(source, targets):
            values = _numbers(batch, targets)
            bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
            if len(bad) and len(targets) == 1 and not self.skip_invalid:
                raise DataError(
                    f"{self.file}, row {rows + bad[0] + 1}: the target {targets[0]!r} is missing or not finite; "
                    "fix the row or pass skip_invalid=true"
                )
            rows += len(values)
            only_zero_one &= bool(np.isin(values[np.isfinite(values)], (0, 1)).all())
            gaps |= bool(np.isnan(values[_labelled(values)]).any())
        if not rows:
            raise DataError(f"{self.file} has no rows")
        return _Labels(rows, only_zero_one, gaps)

    def _batches(self, source: Any, columns: list[str]) -> Iterator[Any]:
        try:
            yield from source.to_batches(columns=columns, batch_size=ROWS_A_CHUNK)
        except pa.ArrowInvalid as error:
            raise DataError(f"{self.file} cannot be read: {_first_line(error)}") from None

    def _chunks(self, source: Any, targets: list[str], total: int) -> Iterator[GraphChunk]:
        labels: list[np.ndarray] = []

        def smiles() -> Iterator[list[str]]:
            for batch in self._batches(source, [self.smiles, *targets]):
                labels.append(_numbers(batch, targets))
                yield [str(text or "") for text in batch.column(self.smiles).to_pylist()]

        row = 0
        for molecules in read_in_parallel(smiles()):
            y = labels.pop(0)
            if not molecules.valid.all() and not self.skip_invalid:
                bad = row + int(np.flatnonzero(~molecules.valid)[0])
                raise DataError(
                    f"{self.file}, row {bad + 1}: {self._smiles_of(source, bad)!r} is not a SMILES that RDKit reads; "
                    "fix the row or pass skip_invalid=true"
                )
            chunk = _with_labels(molecules, y, row)
            row += len(y)
            if len(chunk):
                yield chunk
        if row != total:
            raise DataError(f"{self.file} changed while it was read")

    def _smiles_of(self, source: Any, row: int) -> str:
        return str(source.take(pa.array([row]), columns=[self.smiles]).column(0)[0].as_py())


def _with_labels(molecules: Molecules, y: np.ndarray, first_row: int) -> GraphChunk:
    """The molecules that parsed, without those that have no label; y is [rows, T]."""
    graph_id = first_row + np.flatnonzero(molecules.valid)
    y = y[molecules.valid]
    keep = _labelled(y)
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
        molecules.edge_attr[edge_keep],
    )


def _labelled(y: np.ndarray) -> np.ndarray:
    """Which rows of [rows, T] have a label; an infinite one of several is an error that is found later."""
    return np.isfinite(y[:, 0]) if y.shape[1] == 1 else ~np.isnan(y).all(axis=1)


def _numbers(batch: Any, columns: list[str]) -> np.ndarray:
    """[rows, columns]; an empty cell is NaN."""
    cast = [batch.column(name).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) for name in columns]
    return np.stack(cast, axis=1)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
