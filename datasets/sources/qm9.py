"""QM9: 130,831 characterised molecules from the PyPI package `qm9pack`, by QM9's first author. No download."""

import hashlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv

from permlab.datasets.atoms import LAYOUTS
from permlab.datasets.chunk import GraphChunk, make_chunk
from permlab.datasets.errors import DataError, DataUsageError
from permlab.datasets.molecules import read_in_parallel
from permlab.datasets.randomness import random_order
from permlab.datasets.sources.base import Progress, Reading, Source, file_digest

HARTREE_IN_EV = 27.211386
MOLECULES_A_CHUNK = 2048

# name: column of qm9pack, factor, unit
TARGETS = {
    "gap": ("HOMO_LUMO_gap_au", HARTREE_IN_EV, "eV"),
    "homo": ("HOMO_au", HARTREE_IN_EV, "eV"),
    "lumo": ("LUMO_au", HARTREE_IN_EV, "eV"),
    "mu": ("Dipole_debye", 1.0, "D"),
    "alpha": ("Polarizability_bohr3", 1.0, "bohr^3"),
    "r2": ("R2_bohr2", 1.0, "bohr^2"),
    "zpve": ("ZPVE_au", HARTREE_IN_EV, "eV"),
    "cv": ("Heatcapacity_Cv_cal_mol_K", 1.0, "cal/(mol K)"),
    "u0": ("InternalEnergy_0K_au", HARTREE_IN_EV, "eV"),
}


@dataclass(frozen=True)
class QM9(Source):
    """All targets; `limit` takes a random subset drawn from `seed`, as a separate data set."""

    quick_digest: ClassVar[bool] = False
    summary: ClassVar[str] = "130,831 small molecules; regression of the gap (eV), or eight other targets"

    limit: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.limit < 0 or self.seed < 0:
            raise DataUsageError(f"qm9: limit={self.limit}, seed={self.seed}; neither may be negative (limit 0: all)")

    def digest(self) -> str:
        return hashlib.sha256("".join(file_digest(part) for part in _parts()).encode()).hexdigest()

    def read(self, workspace: Path, download: Progress) -> Reading:
        columns = [column for column, _, _ in TARGETS.values()]
        options = pa.csv.ConvertOptions(include_columns=["Index", "SMILES", "N_atoms", *columns])
        table = pa.concat_tables(pa.csv.read_csv(part, convert_options=options) for part in _parts())
        if self.limit > len(table):
            raise DataUsageError(f"qm9 has {len(table)} molecules; limit={self.limit} asks for more")
        if self.limit:
            table = table.take(np.sort(random_order(len(table), self.seed)[: self.limit]))
        return Reading(
            chunks=_chunks(table),
            feature_names=LAYOUTS["qm9"].atom_names,
            edge_feature_names=LAYOUTS["qm9"].bond_names,
            task="regression",
            targets=tuple(TARGETS),
            units=tuple(unit for _, _, unit in TARGETS.values()),
            default_target="gap",
            total=len(table),
            holdout=0.2 if self.limit else 20_000,
        )


def _chunks(table: pa.Table) -> Iterator[GraphChunk]:
    slices = [table.slice(start, MOLECULES_A_CHUNK) for start in range(0, len(table), MOLECULES_A_CHUNK)]
    parsed = read_in_parallel(part.column("SMILES").to_pylist() for part in slices)
    for part, molecules in zip(slices, parsed, strict=True):
        graph_id = part.column("Index").to_numpy()
        expected = part.column("N_atoms").to_numpy()
        if not molecules.valid.all() or (molecules.counts != expected).any():
            raise DataError("RDKit reads a QM9 molecule differently from QM9 itself; install the pinned versions")
        yield make_chunk(
            molecules.x,
            molecules.counts,
            molecules.src,
            molecules.dst,
            np.stack([part.column(column).to_numpy() * factor for column, factor, _ in TARGETS.values()], axis=1),
            graph_id,
            molecules.group,
            molecules.edge_attr,
        )


def _parts() -> list[Path]:
    # Located, not imported: importing the package needs a setuptools that is no longer shipped.
    package = importlib.util.find_spec("qm9pack")
    if package is None or package.origin is None:
        raise DataError("qm9 needs the package qm9pack; install it with: pip install 'permlab[qm9]'")
    return [Path(package.origin).parent / "data" / f"qm9_part{part}.csv" for part in (1, 2, 3)]
