"""A table as large as MoleculeNet's pcba, 437,929 molecules × 128 labels, made from a seed: what does building it take?

python -m permlab.platform.bench.pcba_table FOLDER [ROWS]
PERMLAB_MIRROR=FOLDER permlab bench data 'dataset=[moleculenet:pcba]'
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from permlab.platform.display.console import out

ROWS, LABELS = 437_929, 128
ROWS_A_BLOCK = 20_000
LENGTH = (5, 10)  # pieces per molecule: 26 atoms on average, as in pcba
KNOWN = 0.6  # share of the labels that are not missing, and of those
ACTIVE = 0.014
PIECES = (
    "CC", "C(=O)N", "c1ccc(cc1)", "OC", "N1CCN(CC1)", "S(=O)(=O)N", "C(F)(F)", "C=C", "C(C)", "c1cc(Cl)c(cc1)", "CO",
    "C(N)", "c1ncc(s1)",
)  # fmt: skip


def write(folder: Path, rows: int = ROWS) -> Path:
    """FOLDER/moleculenet/pcba.csv: chains of random pieces, with labels of 0, 1 or nothing."""
    random = np.random.default_rng(0)
    path = folder / "moleculenet" / "pcba.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    names = [f"PCBA-{i}" for i in range(LABELS)]
    schema = pa.schema([*((name, pa.int8()) for name in names), ("mol_id", pa.string()), ("smiles", pa.string())])
    with pa.csv.CSVWriter(path, schema) as file:
        for start in range(0, rows, ROWS_A_BLOCK):
            count = min(ROWS_A_BLOCK, rows - start)
            drawn = random.random((LABELS, count))
            labels = [pa.array((row < KNOWN * ACTIVE).astype(np.int8), mask=row >= KNOWN) for row in drawn]
            smiles = [_molecule(random) for _ in range(count)]
            ids = [f"CID{start + i}" for i in range(count)]
            file.write_batch(pa.record_batch([*labels, pa.array(ids), pa.array(smiles)], schema=schema))
    return path


def _molecule(random: np.random.Generator) -> str:
    return "".join(PIECES[i] for i in random.integers(len(PIECES), size=random.integers(*LENGTH))) + "C"


if __name__ == "__main__":
    out.print(str(write(Path(sys.argv[1]), *map(int, sys.argv[2:3]))), markup=False)
