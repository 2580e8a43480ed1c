"""MoleculeNet (Wu et al. 2018): from a mirror folder, or downloaded once from the public bucket of its authors."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.csv

from permlab.datasets.atoms import LAYOUTS, check_layout
from permlab.datasets.download import check_as_before, check_md5, fetch, gunzip, mirrored
from permlab.datasets.errors import DataError, DataUsageError
from permlab.datasets.left_out import LeftOut
from permlab.datasets.places import cache_root
from permlab.datasets.sources.base import Progress, Reading, Source, file_digest
from permlab.datasets.sources.smiles_rows import SmilesRows, first_line, subset

URL = "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets"
MAX_DOWNLOAD, MAX_TEXT = 256 << 20, 2 << 30  # bytes; pcba, the largest, has about 60 MB and 110 MB
NOT_LABELS = {"smiles", "mol_id", "mol"}  # columns of the files with several labels


class _Set(NamedTuple):
    """`md5` is the digest that TorchDrug and others publish of the file in the bucket; empty: nobody does."""

    file: str  # in the bucket
    md5: str
    targets: int = 1
    columns: tuple[str, ...] = ()  # of a single target: its column's names, here and there
    target: str = ""  # its name
    unit: str = ""
    task: str = "classification"
    aliases: tuple[str, ...] = ()  # further names of the file in a mirror


SETS = {
    "hiv": _Set("HIV.csv", "9ad10c88f82f1dac7eb5c52b668c30a7", 1, ("HIV_active",), "HIV_active"),
    "tox21": _Set("tox21.csv.gz", "2882d69e70bba0fec14995f26787cc25", 12),
    "esol": _Set(
        "delaney-processed.csv", "0c90a51668d446b9e3ab77e67662bd1c", 1,
        ("measured log solubility in mols per litre", "logSolubility"), "log_solubility", "log mol/L", "regression",
        ("delaney.csv",),
    ),
    "freesolv": _Set(
        "SAMPL.csv", "", 1, ("expt", "freesolv"), "hydration_free_energy", "kcal/mol", "regression",
    ),
    "lipo": _Set(
        "Lipophilicity.csv", "85a0e1cb8b38b0dfc3f96ff47a57f0ab", 1, ("exp", "lipo"), "logD", "", "regression",
    ),
    "bace": _Set("bace.csv", "ba7f8fa3fdf463a811fa7edea8c982c2", 1, ("Class",), "Class"),
    "bbbp": _Set("BBBP.csv", "66286cb9e6b148bd75d80c870df580fb", 1, ("p_np",), "p_np"),
    "sider": _Set("sider.csv.gz", "77c0ef421f7cc8ce963c5836c8761fd2", 27),
    "clintox": _Set("clintox.csv.gz", "db4f2df08be8ae92814e9d6a2d015284", 2),
    "muv": _Set("muv.csv.gz", "9c40bd41310991efd40f4d4868fa3ddf", 17),
    "pcba": _Set("pcba.csv.gz", "", 128),
    "toxcast": _Set("toxcast_data.csv.gz", "92911bbf9c1e2ad85231014859388cd6", 617),
}  # fmt: skip


@dataclass(frozen=True)
class MoleculeNet(Source):
    """Rows that RDKit does not read are left out, counted and listed. `limit` takes random rows, drawn from `seed`."""

    summary: ClassVar[str] = f"{', '.join(SETS)}; features=ogb"
    argument: ClassVar[str] = "name"

    name: str
    features: str = "ogb"
    limit: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.name not in SETS:
            raise DataUsageError(f"MoleculeNet has no data set {self.name!r}; choose from {', '.join(SETS)}")
        check_layout(f"moleculenet:{self.name}", self.features)
        if self.limit < 0 or self.seed < 0:
            raise DataUsageError(
                f"moleculenet:{self.name}: limit={self.limit}, seed={self.seed}; neither may be negative (limit 0: all)"
            )

    def digest(self) -> str | None:
        file = self._mirrored()
        return file_digest(file) if file else None

    def read(self, workspace: Path, download: Progress) -> Reading:
        known = SETS[self.name]
        file = self._mirrored() or self._download(workspace, download)
        if file.suffix == ".gz":
            text = workspace / "raw" / file.stem
            text.parent.mkdir()
            gunzip(file, text, MAX_TEXT)
        else:
            text = file
        smiles, columns = self._columns(text, file)
        rows = SmilesRows(_open(text, file, columns), str(file), smiles, columns, self.features)
        labels, left_out = rows.survey(skip_missing=True), LeftOut(workspace)
        if known.task == "classification" and not labels.only_zero_one:
            raise DataError(f"{file} has labels other than 0 and 1; it is not the data set {self.name}")
        if self.limit > labels.rows:
            raise DataUsageError(f"moleculenet:{self.name} has {labels.rows:,} rows; limit={self.limit} asks for more")
        wanted = subset(labels.rows, self.limit, self.seed) if self.limit else None
        return Reading(
            chunks=rows.chunks(labels.rows, left_out, True, wanted),
            feature_names=LAYOUTS[self.features].atom_names,
            edge_feature_names=LAYOUTS[self.features].bond_names,
            task="classification" if known.task == "classification" else "regression",
            targets=(known.target,) if known.target else columns,
            units=(known.unit,) * len(columns),
            gaps=labels.gaps,
            total=self.limit or labels.rows,
            classes=2 if known.task == "classification" else 0,
            left_out=left_out,
        )

    def _mirrored(self) -> Path | None:
        known = SETS[self.name]
        unpacked = known.file.removesuffix(".gz")
        names = (f"{self.name}.csv", f"{self.name}.csv.gz", unpacked, known.file, *known.aliases)
        return mirrored(*(f"moleculenet/{name}" for name in names))

    def _download(self, workspace: Path, download: Progress) -> Path:
        known = SETS[self.name]
        url, file = f"{URL}/{known.file}", workspace / known.file
        fetch(url, file, download, MAX_DOWNLOAD)
        if known.md5:
            check_md5(file, url, known.md5)
        else:
            check_as_before(file, url, cache_root() / f".first-use-{known.file}.sha256")
        return file

    def _columns(self, text: Path, file: Path) -> tuple[str, tuple[str, ...]]:
        """The column of SMILES and those of the targets."""
        try:
            with pa.csv.open_csv(text) as reader:
                names = reader.schema.names
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{file} cannot be read as CSV: {first_line(error)}") from None
        known = SETS[self.name]
        smiles = next((name for name in ("smiles", "mol") if name in names), None)
        if known.columns:
            columns = tuple(name for name in known.columns if name in names)[:1]
        else:
            columns = tuple(name for name in names if name not in NOT_LABELS)
        if smiles is None or len(columns) != known.targets:
            raise DataError(
                f"{file} is not the data set {self.name}: it needs a column of SMILES and "
                f"{known.targets} of labels{f', {known.columns[0]!r}' if known.columns else ''}; "
                f"it has {len(names)} columns: {', '.join(names[:5])}{', …' if len(names) > 5 else ''}"
            )
        return smiles, columns


def _open(text: Path, file: Path, columns: tuple[str, ...]) -> Any:
    """A pyarrow Dataset whose labels are numbers even if none of the first rows has one."""
    from pyarrow.dataset import CsvFileFormat, dataset  # imported here, because it imports pandas, which is slow

    types = dict.fromkeys(columns, pa.float64())
    try:
        return dataset(text, format=CsvFileFormat(convert_options=pa.csv.ConvertOptions(column_types=types)))
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{file} cannot be read: {first_line(error).rpartition('Invalid: ')[2]}") from None
