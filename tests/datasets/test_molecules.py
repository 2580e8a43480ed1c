import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

from permlab.datasets.atoms import LAYOUTS
from permlab.datasets.chunk import pointer
from permlab.datasets.molecules import read_in_parallel, read_smiles

SMILES = ["C", "N", "O=C1NC=CO1", "[NH3+]CC([O-])=O", "c1ccncc1", "C#CC#N", "F[C@H](O)C", "[H]C([H])=O", "CS(=O)(=O)Cl"]


def by_explicit_hydrogens(smiles: str) -> tuple[np.ndarray, set[tuple[int, int]]]:
    """The same graph by RDKit's AddHs, atom by atom."""
    molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
    rows = []
    for atom in molecule.GetAtoms():
        number = atom.GetAtomicNum()
        hydrogens = sum(neighbour.GetAtomicNum() == 1 for neighbour in atom.GetNeighbors())
        kinds = [Chem.HybridizationType.SP, Chem.HybridizationType.SP2, Chem.HybridizationType.SP3]
        hybrid = [atom.GetHybridization() == kind for kind in kinds]
        rows.append([*(number == z for z in (1, 6, 7, 8, 9)), number, atom.GetIsAromatic(), *hybrid, hydrogens])
    bonds = {(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()}
    return np.array(rows, dtype=np.float32), {tuple(sorted(bond)) for bond in bonds}


def test_graphs_agree_with_rdkits_explicit_hydrogens() -> None:
    molecules = read_smiles(SMILES)
    ptr = pointer(molecules.counts)
    for i, smiles in enumerate(SMILES):
        rows, bonds = by_explicit_hydrogens(smiles)
        np.testing.assert_array_equal(molecules.x[ptr[i] : ptr[i + 1]], rows, err_msg=smiles)
        inside = (molecules.src >= ptr[i]) & (molecules.src < ptr[i + 1])
        pairs = np.sort(np.stack([molecules.src[inside], molecules.dst[inside]], axis=1) - ptr[i], axis=1)
        assert set(map(tuple, pairs.tolist())) == bonds, smiles


def test_heavy_atoms_come_first() -> None:
    formaldehyde = read_smiles(["[H]C([H])=O"])
    assert formaldehyde.x[:, LAYOUTS["qm9"].atom_names.index("atomic_number")].tolist() == [6, 8, 1, 1]


def test_equal_molecules_share_a_group() -> None:
    ethanol, again, ether = read_smiles(["OCC", "CCO", "COC"]).group
    assert ethanol == again != ether


def test_invalid_smiles_are_marked_and_left_out() -> None:
    molecules = read_smiles(["C", "C1CC", "", "not a molecule", "O"])
    assert molecules.valid.tolist() == [True, False, False, False, True]
    assert molecules.counts.tolist() == [5, 3]


def test_an_endless_smiles_is_invalid() -> None:
    assert read_smiles(["C" * 500_000, "C"]).valid.tolist() == [False, True]


def test_invalid_smiles_alone_give_no_molecules() -> None:
    assert len(read_smiles(["C1CC"]).counts) == 0


@pytest.mark.parametrize("workers", [1, 3])
def test_parallel_reading_keeps_the_order(workers: int) -> None:
    batches = [["C"] * (i + 1) for i in range(8)]
    assert [len(molecules.counts) for molecules in read_in_parallel(iter(batches), workers=workers)] == [
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
    ]


def test_bonds_are_those_of_rdkit() -> None:
    """Hydrogens' bonds are single; a kind that has no column of its own is in none."""
    kinds = [Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE, Chem.BondType.AROMATIC]
    for smiles in [*SMILES, "[NH3]->[Cu]"]:
        molecules_read = read_smiles([smiles])
        ends = zip(molecules_read.src.tolist(), molecules_read.dst.tolist(), strict=True)
        ours = {tuple(sorted(pair)): row for pair, row in zip(ends, molecules_read.edge_attr.tolist(), strict=True)}
        molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
        theirs = {
            tuple(sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))): [
                bond.GetBondType() == kind for kind in kinds
            ]
            for bond in molecule.GetBonds()
        }
        assert ours == theirs, smiles
    assert read_smiles(["[NH3]->[Cu]"]).edge_attr.sum(1).tolist() == [0, 1, 1, 1]


def test_scaffolds_are_those_of_rdkit() -> None:
    smiles = ["CCO", "Cc1ccccc1CCC2CC2", "O=C(N)[C@@H]1CCCN1"]
    assert read_smiles(smiles, "ogb", scaffolds=True).scaffold == [
        MurckoScaffoldSmiles(smiles=text, includeChirality=False) for text in smiles
    ]
    assert read_smiles(smiles).scaffold is None
