"""SMILES to graphs by RDKit: hydrogens explicit, heavy atoms first in the order of the SMILES, hydrogens last.

Features of an atom, r = 11: one-hot H C N O F, atomic number, aromatic, sp, sp2, sp3, number of hydrogens.
Any other element has a zero one-hot and is identified by its atomic number.
Features of a bond, s = 4: one-hot single, double, triple, aromatic, as in PyG's QM9. Any other kind has a zero one-hot.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

from permlab.datasets.errors import DataError

GUARD = (
    "molecules are read by several processes, which import your script: put its work under "
    "`if __name__ == '__main__':`, or build the data set first with: permlab data build NAME"
)
FEATURE_NAMES = ("H", "C", "N", "O", "F", "atomic_number", "aromatic", "sp", "sp2", "sp3", "num_hydrogens")
EDGE_FEATURE_NAMES = ("single", "double", "triple", "aromatic")
_ONE_HOT = np.array([1, 6, 7, 8, 9])


class Molecules(NamedTuple):
    """Graphs of several molecules; `valid` says which SMILES parsed; the other fields hold only those."""

    valid: np.ndarray  # [number of SMILES] bool
    x: np.ndarray  # [n, 11] float32
    counts: np.ndarray  # [G] int64
    src: np.ndarray  # [bonds] int64, rows of x, one direction
    dst: np.ndarray
    bond: np.ndarray  # [bonds] int8, place in EDGE_FEATURE_NAMES, -1 for any other kind
    group: np.ndarray  # [G] int64, equal for equal canonical SMILES

    @property
    def edge_attr(self) -> np.ndarray:
        """The kinds of the bonds, one-hot: [bonds, 4] float32."""
        return (self.bond[:, None] == np.arange(len(EDGE_FEATURE_NAMES))).astype(np.float32)


def read_smiles(smiles: list[str]) -> Molecules:
    """Parse a list of SMILES into flat arrays."""
    from rdkit import Chem, RDLogger

    RDLogger.DisableLog("rdApp.*")  # type: ignore[attr-defined]
    hybridisations = [Chem.HybridizationType.SP, Chem.HybridizationType.SP2, Chem.HybridizationType.SP3]
    code = {kind: i for i, kind in enumerate(hybridisations)}
    bonds = [Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE, Chem.BondType.AROMATIC]
    bond_code = {kind: i for i, kind in enumerate(bonds)}
    valid, counts, group = [], [], []
    heavy_start, number, aromatic, hybrid, hydrogens = [], [], [], [], []
    bond_from, bond_to, bond_kind = [], [], []
    start = 0  # first row of the next molecule
    for text in smiles:
        molecule = Chem.MolFromSmiles(text) if text else None
        valid.append(molecule is not None)
        if molecule is None:
            continue
        total_hydrogens = 0
        for atom in molecule.GetAtoms():
            number.append(atom.GetAtomicNum())
            aromatic.append(atom.GetIsAromatic())
            hybrid.append(code.get(atom.GetHybridization(), -1))
            hydrogens.append(atom.GetTotalNumHs())
            total_hydrogens += hydrogens[-1]
        for bond in molecule.GetBonds():
            bond_from.append(start + bond.GetBeginAtomIdx())
            bond_to.append(start + bond.GetEndAtomIdx())
            bond_kind.append(bond_code.get(bond.GetBondType(), -1))
        heavy_start.append((start, molecule.GetNumAtoms()))
        counts.append(molecule.GetNumAtoms() + total_hydrogens)
        canonical = Chem.MolToSmiles(molecule).encode()
        group.append(int.from_bytes(hashlib.blake2b(canonical, digest_size=8).digest(), "little", signed=True))
        start += counts[-1]

    starts, heavy = np.array(heavy_start, dtype=np.int64).reshape(-1, 2).T
    heavy_row = np.arange(heavy.sum()) + np.repeat(starts - (np.cumsum(heavy) - heavy), heavy)
    is_heavy = np.zeros(start, dtype=bool)
    is_heavy[heavy_row] = True
    hydrogen_row = np.flatnonzero(~is_heavy)
    parent_row = np.repeat(heavy_row, np.array(hydrogens, dtype=np.int64))
    atomic_number = np.ones(start, dtype=np.int64)
    atomic_number[heavy_row] = number

    src = np.concatenate([np.array(bond_from, dtype=np.int64), parent_row])
    dst = np.concatenate([np.array(bond_to, dtype=np.int64), hydrogen_row])
    kinds = np.concatenate([np.array(bond_kind, dtype=np.int8), np.zeros(len(hydrogen_row), dtype=np.int8)])
    x = np.zeros((start, len(FEATURE_NAMES)), dtype=np.float32)
    x[:, :5] = atomic_number[:, None] == _ONE_HOT
    x[:, 5] = atomic_number
    x[heavy_row, 6] = aromatic
    x[heavy_row, 7:10] = np.array(hybrid)[:, None] == np.arange(3)
    np.add.at(x[:, 10], src[atomic_number[dst] == 1], 1)
    np.add.at(x[:, 10], dst[atomic_number[src] == 1], 1)
    return Molecules(
        np.array(valid, dtype=bool), x, np.array(counts, np.int64), src, dst, kinds, np.array(group, np.int64)
    )


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_in_parallel(batches: Iterable[list[str]], workers: int | None = None) -> Iterator[Molecules]:
    """`read_smiles` of each batch, in order, spread over the cores, with a bounded number of batches in flight."""
    try:
        import rdkit  # noqa: F401
    except ModuleNotFoundError:
        raise DataError("molecules need RDKit; install it with: pip install 'permlab[qm9]'") from None
    workers = workers or usable_cores()
    # Not fork: the parent may hold the threads of torch or Ray.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool, _started_from_main():
        queue = iter(batches)
        pending: list[Future[Molecules]] = [pool.submit(read_smiles, batch) for batch in islice(queue, 2 * workers)]
        while pending:
            done = pending.pop(0).result()
            pending.extend(pool.submit(read_smiles, batch) for batch in islice(queue, 1))
            yield done


@contextmanager
def _started_from_main() -> Iterator[None]:
    """A spawned worker imports the user's script; without a `__main__` guard there, it fails at once."""
    try:
        yield
    except BrokenProcessPool:
        raise DataError(GUARD) from None
