from pathlib import Path

import numpy as np
import pytest

from permlab.datasets.cache import build
from permlab.datasets.errors import DataUsageError
from permlab.datasets.sources.qm9 import MOLECULES_A_CHUNK, QM9
from permlab.datasets.store import GraphStore


def test_a_subset_is_a_data_set_of_its_own() -> None:
    first = build("qm9,limit=50")
    again = build("qm9,limit=50", force=True)
    other = build("qm9,limit=50,seed=1")
    assert first.digest == again.digest != other.digest
    assert (first.graphs, first.task, first.default_target, first.gaps) == (50, "regression", "gap", False)
    assert len(first.feature_names) == 11 and first.edge_feature_names == ["single", "double", "triple", "aromatic"]
    store = GraphStore.open("qm9,limit=50")
    assert 3 <= first.min_nodes <= first.max_nodes <= 29
    assert 4 < store.y.mean() < 10 and store.units == ("eV",)


def test_all_nine_targets_are_in_one_cache() -> None:
    build("qm9,limit=50")
    gap, all_nine = GraphStore.open("qm9,limit=50"), GraphStore.open("qm9,limit=50", "*")
    assert all_nine.targets == ("gap", "homo", "lumo", "mu", "alpha", "r2", "zpve", "cv", "u0")
    assert gap.targets == ("gap",) and all_nine.y.shape == (50, 9) and all_nine.units[3:5] == ("D", "bohr^3")
    np.testing.assert_array_equal(all_nine.y[:, 0], gap.y)
    homo, lumo = GraphStore.open("qm9,limit=50", "homo+lumo").y.T
    np.testing.assert_allclose(lumo - homo, gap.y, atol=5e-3)  # that is what the gap is


def test_methane_comes_first_and_is_as_the_paper_has_it(tmp_path: Path) -> None:
    """13.736 eV, the carbon before its four hydrogens."""
    chunk = next(iter(QM9().read(tmp_path, lambda done, total: None).chunks))
    assert chunk.y[0, 0] == pytest.approx(13.736, abs=5e-4)
    assert chunk.x[: chunk.node_ptr[1]].tolist() == [
        [0, 1, 0, 0, 0, 6, 0, 0, 0, 1, 4],
        *4 * [[1, 0, 0, 0, 0, 1] + 5 * [0]],
    ]
    assert chunk.dst[: chunk.edge_ptr[1]].tolist() == [1, 2, 3, 4, 0, 0, 0, 0]
    assert chunk.edge_attr[: chunk.edge_ptr[1]].tolist() == 8 * [[1, 0, 0, 0]]


def test_chunks_hold_every_molecule(tmp_path: Path) -> None:
    limit = MOLECULES_A_CHUNK + 10
    chunks = list(QM9(limit=limit).read(tmp_path, lambda done, total: None).chunks)
    assert [len(chunk) for chunk in chunks] == [MOLECULES_A_CHUNK, 10]
    ids = np.concatenate([chunk.graph_id for chunk in chunks])
    assert len(set(ids.tolist())) == limit and (np.diff(ids) > 0).all()


def test_wrong_parameters() -> None:
    with pytest.raises(DataUsageError, match="limit=-1"):
        QM9(limit=-1)


def test_a_limit_above_the_number_of_molecules_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataUsageError, match="130831.*limit=200000"):
        QM9(limit=200_000).read(tmp_path, lambda done, total: None)
