"""Features of atoms and bonds: what is read of every atom and bond, and the columns that a layout makes of it.

An atom is nine numbers, those of OGB: atomic number, chirality, degree with hydrogens, formal charge, number of
hydrogens, radical electrons, hybridisation, aromatic, in a ring. A bond is three: kind, stereo, conjugated.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from permlab.datasets.errors import DataUsageError

CHIRALITY = ("CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW")  # by RDKit's names; an atom's entry is its place here
HYBRIDISATION = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
BOND = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
STEREO = ("STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY")
NONE = -1  # unspecified chirality and stereo; any kind that is not listed
OTHER_CHIRALITY = len(CHIRALITY)
HYDROGEN = (1, NONE, 1, 0, 0, 0, NONE, 0, 0)  # an explicit hydrogen

ELEMENTS = {
    "H": 1, "B": 5, "C": 6, "N": 7, "O": 8, "F": 9, "Si": 14, "P": 15, "S": 16, "Cl": 17, "Br": 35, "I": 53,
}  # fmt: skip
_FIRST = np.array([1, 6, 7, 8, 9])  # elements of QM9


class Layout(NamedTuple):
    """A choice of features. `atom_columns` takes atoms [n, 9] and the number of hydrogen nodes beside each, [n]."""

    hydrogens: bool  # are hydrogens nodes of their own?
    atom_names: tuple[str, ...]
    bond_names: tuple[str, ...]
    atom_columns: Callable[[np.ndarray, np.ndarray], np.ndarray]
    bond_columns: Callable[[np.ndarray], np.ndarray]


def _one_hot(values: np.ndarray, *choices: int) -> np.ndarray:
    return values[:, None] == np.array(choices)


def _capped(values: np.ndarray, least: int, most: int) -> np.ndarray:
    """One-hot; what is below or above counts as the first or the last."""
    return _one_hot(values.clip(least, most), *range(least, most + 1))


def _qm9_atoms(atoms: np.ndarray, hydrogens: np.ndarray) -> np.ndarray:
    number, _, _, _, _, _, hybrid, aromatic, _ = atoms.T
    columns = [_one_hot(number, *_FIRST), number, aromatic, _one_hot(hybrid, 0, 1, 2), hydrogens]
    return _columns(columns)


def _qm9_bonds(bonds: np.ndarray) -> np.ndarray:
    return _columns([_one_hot(bonds[:, 0], *range(len(BOND)))])


def _ogb_atoms(atoms: np.ndarray, hydrogens: np.ndarray) -> np.ndarray:
    number, chirality, degree, charge, attached, radicals, hybrid, aromatic, ring = atoms.T
    columns = [
        _one_hot(number, *ELEMENTS.values()),
        number,
        _one_hot(chirality, 0, 1, OTHER_CHIRALITY),
        _capped(degree, 0, 6),
        _capped(charge, -2, 2),
        _capped(attached, 0, 4),
        _capped(radicals, 0, 2),
        _one_hot(hybrid, *range(len(HYBRIDISATION))),
        aromatic,
        ring,
    ]
    return _columns(columns)


def _ogb_bonds(bonds: np.ndarray) -> np.ndarray:
    kind, stereo, conjugated = bonds.T
    return _columns([_one_hot(kind, *range(len(BOND))), _one_hot(stereo, *range(len(STEREO))), conjugated])


def _columns(parts: list[np.ndarray]) -> np.ndarray:
    """[rows] and [rows, k] beside each other, float32."""
    return np.column_stack(parts).astype(np.float32)


_QM9 = Layout(
    hydrogens=True,
    atom_names=("H", "C", "N", "O", "F", "atomic_number", "aromatic", "sp", "sp2", "sp3", "num_hydrogens"),
    bond_names=("single", "double", "triple", "aromatic"),
    atom_columns=_qm9_atoms,
    bond_columns=_qm9_bonds,
)
_OGB = Layout(
    hydrogens=False,
    atom_names=(
        *ELEMENTS, "atomic_number", "clockwise", "counterclockwise", "other_chirality",
        *(f"degree_{i}" for i in range(6)), "degree_6_or_more",
        "charge_-2_or_less", "charge_-1", "charge_0", "charge_1", "charge_2_or_more",
        *(f"hydrogens_{i}" for i in range(4)), "hydrogens_4_or_more",
        "radicals_0", "radicals_1", "radicals_2_or_more",
        "sp", "sp2", "sp3", "sp3d", "sp3d2", "aromatic", "in_ring",
    ),
    bond_names=("single", "double", "triple", "aromatic", "Z", "E", "cis", "trans", "any_stereo", "conjugated"),
    atom_columns=_ogb_atoms,
    bond_columns=_ogb_bonds,
)  # fmt: skip
LAYOUTS = {"qm9": _QM9, "ogb": _OGB, "ogb_hydrogens": _OGB._replace(hydrogens=True)}


def check_layout(dataset: str, features: str) -> None:
    if features not in LAYOUTS:
        raise DataUsageError(f"data set {dataset!r}: features={features!r}; choose from {', '.join(LAYOUTS)}")
