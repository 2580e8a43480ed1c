"""SMILES to graphs by RDKit: heavy atoms in the order of the SMILES, then the hydrogens, if they are nodes.

Which features atoms and bonds get is the choice of a layout, see `permlab.datasets.atoms`.
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

from permlab.datasets.atoms import BOND, CHIRALITY, HYBRIDISATION, HYDROGEN, LAYOUTS, NONE, OTHER_CHIRALITY, STEREO
from permlab.datasets.chunk import pointer
from permlab.datasets.errors import DataError

MOST_CHARACTERS = 10_000  # of a SMILES: RDKit takes minutes over longer ones
GUARD = (
    "molecules are read by several processes, which import your script: put its work under "
    "`if __name__ == '__main__':`, or build the data set first with: permlab data build NAME"
)


class Molecules(NamedTuple):
    """Graphs of several molecules; `valid` says which SMILES parsed; the other fields hold only those."""

    layout: str
    valid: np.ndarray  # [number of SMILES] bool
    atoms: np.ndarray  # [n, 9] int16, see `permlab.datasets.atoms`
    counts: np.ndarray  # [G] int64
    src: np.ndarray  # [bonds] int64, rows of `atoms`, one direction
    dst: np.ndarray
    bonds: np.ndarray  # [bonds, 3] int8
    group: np.ndarray  # [G] int64, equal for equal canonical SMILES
    scaffold: list[str] | None  # [G], if asked for: the Bemis–Murcko scaffold as SMILES; empty without rings

    @property
    def x(self) -> np.ndarray:
        """[n, r] float32"""
        beside, other = np.concatenate([self.src, self.dst]), np.concatenate([self.dst, self.src])
        hydrogens = np.bincount(beside[self.atoms[other, 0] == 1], minlength=len(self.atoms))
        return LAYOUTS[self.layout].atom_columns(self.atoms, hydrogens)

    @property
    def edge_attr(self) -> np.ndarray:
        """[bonds, s] float32"""
        return LAYOUTS[self.layout].bond_columns(self.bonds)


def read_smiles(smiles: list[str], layout: str = "qm9", scaffolds: bool = False) -> Molecules:
    """Parse a list of SMILES into flat arrays."""
    from rdkit import Chem, RDLogger
    from rdkit.Chem.Scaffolds.MurckoScaffold import GetScaffoldForMol

    RDLogger.DisableLog("rdApp.*")  # type: ignore[attr-defined]
    chirality = _places(Chem.ChiralType, CHIRALITY) | {Chem.ChiralType.CHI_UNSPECIFIED: NONE}
    hybridisation, kind = _places(Chem.HybridizationType, HYBRIDISATION), _places(Chem.BondType, BOND)
    stereo = _places(Chem.BondStereo, STEREO)
    valid, heavy, group, scaffold = [], [], [], []
    atoms, ends, bonds = [], [], []
    for text in smiles:
        molecule = Chem.MolFromSmiles(text) if 0 < len(text) <= MOST_CHARACTERS else None
        if molecule is None or not molecule.GetNumAtoms():
            valid.append(False)
            continue
        valid.append(True)
        for atom in molecule.GetAtoms():
            atoms.append(
                (
                    atom.GetAtomicNum(),
                    chirality.get(atom.GetChiralTag(), OTHER_CHIRALITY),
                    atom.GetTotalDegree(),
                    atom.GetFormalCharge(),
                    atom.GetTotalNumHs(),
                    atom.GetNumRadicalElectrons(),
                    hybridisation.get(atom.GetHybridization(), NONE),
                    atom.GetIsAromatic(),
                    atom.IsInRing(),
                )
            )
        first = len(atoms) - molecule.GetNumAtoms()
        for bond in molecule.GetBonds():
            ends.append((first + bond.GetBeginAtomIdx(), first + bond.GetEndAtomIdx()))
            bonds.append(
                (kind.get(bond.GetBondType(), NONE), stereo.get(bond.GetStereo(), NONE), bond.GetIsConjugated())
            )
        heavy.append(molecule.GetNumAtoms())
        canonical = Chem.MolToSmiles(molecule).encode()
        group.append(int.from_bytes(hashlib.blake2b(canonical, digest_size=8).digest(), "little", signed=True))
        if scaffolds:
            scaffold.append(Chem.MolToSmiles(GetScaffoldForMol(molecule), isomericSmiles=False))
    src, dst = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    molecules = Molecules(
        layout,
        np.array(valid, dtype=bool),
        np.array(atoms, dtype=np.int16).reshape(-1, 9),
        np.array(heavy, dtype=np.int64),
        src,
        dst,
        np.array(bonds, dtype=np.int8).reshape(-1, 3),
        np.array(group, dtype=np.int64),
        scaffold if scaffolds else None,
    )
    return _with_hydrogens(molecules) if LAYOUTS[layout].hydrogens else molecules


def _places(kinds: object, names: tuple[str, ...]) -> dict[object, int]:
    return {getattr(kinds, name): place for place, name in enumerate(names)}


def _with_hydrogens(heavy: Molecules) -> Molecules:
    """Hydrogens as nodes, after the heavy atoms of their molecule, each with a single bond to its atom."""
    attached = heavy.atoms[:, 4].astype(np.int64)
    start = pointer(heavy.counts)
    counts = heavy.counts + np.diff(pointer(attached)[start])
    place = np.arange(start[-1]) + np.repeat(pointer(counts)[:-1] - start[:-1], heavy.counts)  # of the heavy atoms
    atoms = np.full((counts.sum(), 9), HYDROGEN, dtype=heavy.atoms.dtype)
    atoms[place] = heavy.atoms
    added = np.ones(len(atoms), dtype=bool)
    added[place] = False
    hydrogen, parent = np.flatnonzero(added), np.repeat(place, attached)
    return heavy._replace(
        atoms=atoms,
        counts=counts,
        src=np.concatenate([place[heavy.src], parent]),
        dst=np.concatenate([place[heavy.dst], hydrogen]),
        bonds=np.concatenate([heavy.bonds, np.tile(np.array([0, NONE, 0], dtype=np.int8), (len(hydrogen), 1))]),
    )


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_in_parallel(
    batches: Iterable[list[str]], layout: str = "qm9", scaffolds: bool = False, workers: int | None = None
) -> Iterator[Molecules]:
    """`read_smiles` of each batch, in order, spread over the cores, with a bounded number of batches in flight."""
    try:
        import rdkit  # noqa: F401
    except ModuleNotFoundError:
        raise DataError("molecules need RDKit; install it with: pip install 'permlab[qm9]'") from None
    workers = workers or usable_cores()
    # Not fork: the parent may hold the threads of torch or Ray.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool, _started_from_main():
        queue = (pool.submit(read_smiles, batch, layout, scaffolds) for batch in batches)
        pending: list[Future[Molecules]] = list(islice(queue, 2 * workers))
        while pending:
            done = pending.pop(0).result()
            pending.extend(islice(queue, 1))
            yield done


@contextmanager
def _started_from_main() -> Iterator[None]:
    """A spawned worker imports the user's script; without a `__main__` guard there, it fails at once."""
    try:
        yield
    except BrokenProcessPool:
        raise DataError(GUARD) from None
