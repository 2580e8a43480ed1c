"""The layouts of OGB's features, against PyG's own reading of SMILES."""

import numpy as np
import pytest
from torch_geometric.utils import from_smiles
from torch_geometric.utils.smiles import e_map, x_map

from permlab.datasets.atoms import LAYOUTS
from permlab.datasets.molecules import read_smiles

SMILES = [
    "Cl[C@H](/C=C/C)Br", "O1C=C[C@H]([C@H]1O2)c3c2cc(OC)c4c3OC(=O)C5=C4CCC(=O)5", "[O-][N+](=O)c1ccccc1", "C#CC#N",
    "[Na+].[Cl-]", "CS(=O)(=O)N", "F[P-](F)(F)(F)(F)F", "[CH2]C", "N[C@@H](C)C(=O)O", "c1cc[se]c1",
    "OB(O)c1ccccc1", "[13CH4]", "C/C=C\\C",
]  # fmt: skip


def named(layout: str, smiles: str) -> tuple[list[dict[str, float]], dict[tuple[int, int], dict[str, float]]]:
    """Atoms and bonds as {name of a column: value}."""
    molecules, names = read_smiles([smiles], layout), LAYOUTS[layout]
    atoms = [dict(zip(names.atom_names, row, strict=True)) for row in molecules.x.tolist()]
    ends = zip(molecules.src.tolist(), molecules.dst.tolist(), strict=True)
    bonds = [dict(zip(names.bond_names, row, strict=True)) for row in molecules.edge_attr.tolist()]
    return atoms, dict(zip(ends, bonds, strict=True))


def hot(row: dict[str, float], prefix: str) -> str:
    """The one column of a group that is 1, without the group's name."""
    (name,) = [name for name, value in row.items() if name.startswith(prefix) and value == 1]
    return name.removeprefix(prefix)


@pytest.mark.parametrize("smiles", SMILES)
def test_atoms_are_those_that_pyg_reads(smiles: str) -> None:
    theirs, (ours, _) = from_smiles(smiles), named("ogb", smiles)
    assert len(ours) == theirs.num_nodes
    for row, indices in zip(ours, theirs.x.tolist(), strict=True):
        says = {name: x_map[name][index] for name, index in zip(x_map, indices, strict=True)}
        assert row["atomic_number"] == says["atomic_num"]
        turns = {"CHI_TETRAHEDRAL_CW": "clockwise", "CHI_TETRAHEDRAL_CCW": "counterclockwise"}
        for name in ("clockwise", "counterclockwise", "other_chirality"):
            assert row[name] == (turns.get(says["chirality"]) == name)
        assert hot(row, "degree_") == ("6_or_more" if says["degree"] >= 6 else str(says["degree"]))
        charge = {-2: "-2_or_less", 2: "2_or_more"}.get(says["formal_charge"], str(says["formal_charge"]))
        assert hot(row, "charge_") == charge
        assert hot(row, "hydrogens_") == ("4_or_more" if says["num_hs"] >= 4 else str(says["num_hs"]))
        radicals = says["num_radical_electrons"]
        assert hot(row, "radicals_") == ("2_or_more" if radicals >= 2 else str(radicals))
        for name in ("sp", "sp2", "sp3", "sp3d", "sp3d2"):
            assert row[name] == (says["hybridization"] == name.upper())
        assert (row["aromatic"], row["in_ring"]) == (says["is_aromatic"], says["is_in_ring"])


@pytest.mark.parametrize("smiles", SMILES)
def test_bonds_are_those_that_pyg_reads(smiles: str) -> None:
    theirs, (_, ours) = from_smiles(smiles), named("ogb", smiles)
    stereo = {"STEREOZ": "Z", "STEREOE": "E", "STEREOCIS": "cis", "STEREOTRANS": "trans", "STEREOANY": "any_stereo"}
    assert 2 * len(ours) == theirs.num_edges
    for (i, j), indices in zip(theirs.edge_index.T.tolist(), theirs.edge_attr.tolist(), strict=True):
        row = ours.get((i, j)) or ours[j, i]
        says = {name: e_map[name][index] for name, index in zip(e_map, indices, strict=True)}
        for name in ("single", "double", "triple", "aromatic"):
            assert row[name] == (says["bond_type"] == name.upper())
        for name in stereo.values():
            assert row[name] == (stereo.get(says["stereo"]) == name)
        assert row["conjugated"] == says["is_conjugated"]


def test_an_element_without_a_column_has_its_number() -> None:
    ((selenium, *_), _) = named("ogb", "[SeH2]")
    assert selenium["atomic_number"] == 34 and not any(selenium[name] for name in ("C", "S", "Br"))


def test_hydrogens_as_nodes() -> None:
    """Methane: a carbon that still counts its hydrogens, and four atoms of degree 1."""
    (carbon, *hydrogens), bonds = named("ogb_hydrogens", "C")
    assert hot(carbon, "hydrogens_") == "4_or_more" and len(hydrogens) == len(bonds) == 4
    assert all(row["H"] == 1 and hot(row, "degree_") == "1" for row in hydrogens)
    assert all(row["single"] == 1 and not row["conjugated"] for row in bonds.values())
    heavy = read_smiles(SMILES, "ogb").x
    both = read_smiles(SMILES, "ogb_hydrogens")
    np.testing.assert_array_equal(both.x[both.atoms[:, 0] > 1], heavy[heavy[:, 0] == 0])
