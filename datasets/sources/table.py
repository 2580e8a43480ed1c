"""A user's own molecules: a CSV or Parquet file with a column of SMILES and one or several columns of targets."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from permlab.datasets.atoms import LAYOUTS, check_layout
from permlab.datasets.errors import DataError, DataUsageError
from permlab.datasets.left_out import LeftOut
from permlab.datasets.places import safe_folder
from permlab.datasets.sources.base import Progress, Reading, Source, file_digest
from permlab.datasets.sources.smiles_rows import SmilesRows, first_line


@dataclass(frozen=True)
class Table(Source):
    """Targets with only the values 0 and 1 are a classification.

    `target` is a column, several joined by +, or * for all columns of numbers. With several, a row may lack some of
    its labels; a row without any is left out. `skip_invalid` leaves out rows that RDKit does not read, and rows without
    their only label.
    """

    summary: ClassVar[str] = "your own molecules, CSV or Parquet; smiles=COLUMN, target=COLUMN, COLUMN+COLUMN or *"
    argument: ClassVar[str] = "file"

    file: str
    smiles: str = "smiles"
    target: str = "y"
    unit: str = ""
    skip_invalid: bool = False
    features: str = "qm9"

    def __post_init__(self) -> None:
        check_layout(f"table:{self.file}", self.features)

    def digest(self) -> str:
        return file_digest(self._path())

    def folder(self, text: str) -> str:
        path = Path(self.file).expanduser().resolve()
        return safe_folder("table", path.stem, f"{path} {text}")

    def read(self, workspace: Path, download: Progress) -> Reading:
        source = self._open()
        targets = self._targets(source.schema)
        rows = SmilesRows(source, self.file, self.smiles, targets, self.features)
        labels, left_out = rows.survey(self.skip_invalid), LeftOut(workspace)
        return Reading(
            chunks=rows.chunks(labels.rows, left_out, self.skip_invalid),
            feature_names=LAYOUTS[self.features].atom_names,
            edge_feature_names=LAYOUTS[self.features].bond_names,
            task="classification" if labels.only_zero_one else "regression",
            targets=tuple(targets),
            units=(self.unit,) * len(targets),
            gaps=labels.gaps,
            total=labels.rows,
            left_out=left_out,
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
            raise DataError(f"{self.file} cannot be read as {path.suffix[1:]}: {first_line(error)}") from None
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


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
