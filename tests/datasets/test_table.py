import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from permlab.datasets.cache import build
from permlab.datasets.errors import DataError
from permlab.datasets.seal import sealed, unsealed
from permlab.datasets.store import GraphStore

ROWS = {"smiles": ["CCO", "c1ccccc1", "C", "O"], "y": [0.5, 1.25, -2.0, 3.0]}


def write(folder: Path, columns: dict, name: str = "mine.csv") -> str:
    path = folder / name
    table = pa.table(columns)
    if name.endswith(".csv"):
        pa.csv.write_csv(table, path)
    elif name.endswith(".parquet"):
        pa.parquet.write_table(table, path)
    return f"table:{path}"


@pytest.mark.parametrize("name", ["mine.csv", "mine.parquet"])
def test_molecules_and_targets(tmp_path: Path, name: str) -> None:
    text = write(tmp_path, ROWS, name)
    manifest = build(text)
    store = GraphStore.open(text)
    assert (manifest.graphs, manifest.nodes, manifest.task) == (4, 9 + 12 + 5 + 3, "regression")
    assert store.y.tolist() == ROWS["y"]
    assert np.diff(store.node_ptr).tolist() == [9, 12, 5, 3]


def test_columns_by_name_and_classes_by_their_values(tmp_path: Path) -> None:
    text = write(tmp_path, {"structure": ["C", "CC"], "active": [1, 0], "logp": [1.5, 2.5]})
    assert build(f"{text},smiles=structure,target=active").task == "classification"
    assert build(f"{text},smiles=structure,target=logp,unit=log").units == ["log"]


def test_an_edited_file_is_built_again(tmp_path: Path) -> None:
    text = write(tmp_path, ROWS)
    first = build(text)
    assert build(text) == first
    write(tmp_path, ROWS | {"y": [9.0, 9.0, 9.0, 9.5]})
    assert build(text).digest != first.digest


def test_a_smiles_that_does_not_parse_is_named_with_its_row(tmp_path: Path, cache: Path) -> None:
    text = write(tmp_path, {"smiles": ["C", "C1CC", "O"], "y": [1.0, 2.0, 3.0]})
    with pytest.raises(DataError, match=r"row 2: 'C1CC'.*skip_invalid=true"):
        build(text)
    assert not list(cache.glob("table-*"))
    manifest = build(f"{text},skip_invalid=true")
    assert (manifest.dropped, manifest.left_out) == (1, {"SMILES not read by RDKit": 1})
    store = GraphStore.open(f"{text},skip_invalid=true")
    assert store.graph_id.tolist() == [0, 2] and store.y.tolist() == [1.0, 3.0]


def test_a_missing_target_is_named_or_skipped(tmp_path: Path) -> None:
    text = write(tmp_path, {"smiles": ["C", "CC", "O"], "y": [1.5, None, 3.0]})
    with pytest.raises(DataError, match="row 2: .*'y'"):
        build(text)
    manifest = build(f"{text},skip_invalid=true")
    assert (manifest.graphs, manifest.nodes) == (2, 8)


def test_rows_left_out_are_counted_by_reason_and_listed(tmp_path: Path, cache: Path, permlab) -> None:
    """A row counts once, by what is wrong with its SMILES first. Commas and quotes are read back as they were."""
    smiles = ["C", "C1CC", "O", None, 'C,"x"\n', "CC", "N", "CO", "C" * 10_001]
    text = write(tmp_path, {"smiles": smiles, "y": [1, 2, None, 3, None, np.inf, np.nan, 5, 6]}, "mine.parquet")
    words = (*text.split(","), "skip_invalid=true")
    code, out, _ = permlab("data", "build", *words)
    (listed,) = cache.glob("table-*/left_out.csv")
    reasons = {"SMILES not read by RDKit": 2, "no label": 2, "no SMILES": 1, "label inf": 1}
    reasons |= {"SMILES of more than 10,000 characters": 1}
    said = f"7 rows ({', '.join(f'{reason}: {count}' for reason, count in reasons.items())}), listed in {listed}\n"
    assert code == 0 and out.endswith(f"\nleft out: {said}")
    manifest = build(f"{text},skip_invalid=true")
    assert (manifest.graphs, manifest.dropped, manifest.left_out) == (2, 7, reasons)
    with listed.open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["row", "smiles", "reason"],
            ["2", "C1CC", "SMILES not read by RDKit"],
            ["3", "O", "no label"],
            ["4", "", "no SMILES"],
            ["5", 'C,"x"\n', "SMILES not read by RDKit"],
            ["6", "CC", "label inf"],
            ["7", "N", "no label"],
            ["9", "C" * 10_001, "SMILES of more than 10,000 characters"],
        ]
    shown = " ".join(permlab("data", "info", *words)[1].split())
    assert "left out 7 rows (SMILES not read by RDKit: 2, no label: 2" in shown
    document = json.loads(permlab("data", "info", *words, "--json")[1])
    assert (document["left_out"], document["left_out_list"]) == (reasons, str(listed))
    listed.write_text(listed.read_text().replace("C1CC", "C2CC"))
    assert "left_out.csv does not match its digest" in permlab("data", "verify", *words)[2]


def test_a_cache_of_the_version_before_says_how_its_rows_are_listed(tmp_path: Path, cache: Path, permlab) -> None:
    name = f"{write(tmp_path, {'smiles': ['C', 'C1CC'], 'y': [1.0, 2.0]})},skip_invalid=true"
    built = build(name)
    (path,) = cache.glob("table-*/manifest.json")
    older = unsealed(json.loads(path.read_text())) | {"unread": 1, "unread_named": ["row 2: C1CC"]}
    del older["left_out"], older["lists"]
    path.write_text(json.dumps(sealed(older)))
    (path.parent / "left_out.csv").unlink()
    assert GraphStore.open(name).manifest.digest == built.digest
    assert permlab("data", "build", name)[1].endswith(
        f"left out: 1 row, not listed; list them with: permlab data build {built.name} --force\n"
    )
    assert "left_out.csv" in permlab("data", "build", name, "--force")[1]


@pytest.mark.parametrize(
    ("columns", "name", "message"),
    [
        ({"smi": ["C"], "y": [1.0]}, "mine.csv", "'smiles'.*smiles=.*choose from smi, y"),
        ({"smiles": ["C"], "y": ["high"]}, "mine.csv", "'y'.*string"),
        ({"smiles": ["C"], "y": [1.0]}, "mine.txt", "no file.*mine.txt"),
        ({"smiles": pa.array([], pa.string()), "y": pa.array([], pa.float64())}, "mine.parquet", "parquet.*no rows"),
    ],
)
def test_unusable_tables_are_refused(tmp_path: Path, columns: dict, name: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        build(write(tmp_path, columns, name))


def test_a_file_that_is_not_a_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(DataError, match="broken.parquet.*parquet"):
        build(f"table:{tmp_path}/broken.parquet")
    (tmp_path / "mine.txt").write_text("C 1.0")
    with pytest.raises(DataError, match=r"\.csv.*\.parquet"):
        build(f"table:{tmp_path}/mine.txt")


def test_targets_beyond_single_precision_are_refused(tmp_path: Path) -> None:
    (tmp_path / "huge.csv").write_text("smiles,y\nC,1e39\nCC,2\n")
    with pytest.raises(DataError, match="graph 0 .*target inf.*single precision"):
        build(f"table:{tmp_path}/huge.csv")
    (tmp_path / "int.csv").write_text("smiles,y\nC,9223372036854775807\nCC,2\n")
    assert build(f"table:{tmp_path}/int.csv").graphs == 2


def test_a_table_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("smiles,größe\nC,1\n".encode("latin-1"))
    with pytest.raises(DataError, match="latin.csv"):
        build(f"table:{tmp_path}/latin.csv,target=größe")


def test_a_script_without_a_guard_is_told_so(tmp_path: Path, cache: Path) -> None:
    """Workers import the script; it must not hang on the lock that it holds itself."""
    write(tmp_path, ROWS)
    script = tmp_path / "script.py"
    script.write_text(
        "from permlab.datasets.store import GraphStore\n"
        f"print(len(GraphStore.open('table:{tmp_path}/mine.csv', build_missing=True)))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "if __name__ == '__main__':" in done.stderr


def test_several_columns_with_gaps(tmp_path: Path, permlab) -> None:
    """A row without any label is left out and counted; text and the SMILES themselves are no targets."""
    columns = {
        "id": ["a", "b", "c", "d"],
        "smiles": ["CCO", "c1ccccc1", "C", "O"],
        "first": [0, None, None, 1],
        "second": [True, None, False, None],
    }
    text = write(tmp_path, columns)
    for target in ("*", "first+second"):
        manifest = build(f"{text},target={target}")
        assert (manifest.targets, manifest.task, manifest.classes) == (["first", "second"], "classification", 2)
        assert (manifest.graphs, manifest.dropped, manifest.gaps) == (3, 1, True)
        store = GraphStore.open(f"{text},target={target}")
        assert store.graph_id.tolist() == [0, 2, 3] and np.diff(store.node_ptr).tolist() == [9, 5, 3]
        np.testing.assert_array_equal(store.y, [[0, 1], [np.nan, 0], [1, np.nan]])
    code, out, _ = permlab("data", "info", f"{text},target=*")
    assert code == 0
    for part in ("2 targets: first, second", "1 row (no label: 1), listed in", "1 labels missing"):
        assert part in out


def test_several_columns_of_numbers_are_a_regression(tmp_path: Path) -> None:
    text = write(tmp_path, ROWS | {"z": [0, 1, 1, 0], "a+b": [1, 2, 3, 4]})
    manifest = build(f"{text},target=y+z,unit=eV")
    assert (manifest.task, manifest.classes, manifest.gaps) == ("regression", 0, False)
    assert (manifest.units, manifest.default_target) == (["eV", "eV"], "")
    assert build(f"{text},target=a+b").targets == ["a+b"]  # a column may be called that


def test_bonds_are_the_features_of_edges(tmp_path: Path) -> None:
    text = write(tmp_path, {"smiles": ["O=CC#N", "c1ccccc1"], "y": [0.5, 1.5]})
    build(text)
    batch = GraphStore.open(text).batch(np.array([0]))
    kinds = {
        tuple(ends): kind for ends, kind in zip(batch.edge_index.T.tolist(), batch.edge_attr.tolist(), strict=True)
    }
    assert kinds[0, 1] == kinds[1, 0] == [0, 1, 0, 0] and kinds[2, 3] == [0, 0, 1, 0] and kinds[1, 4] == [1, 0, 0, 0]
    benzene = GraphStore.open(text).batch(np.array([1]))
    assert benzene.edge_attr.sum(0).tolist() == [12, 0, 0, 12]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("y+w", "no column 'w'; name one with target=, choose from smiles, y"),
        ("y+y", "target=y\\+y names a column twice"),
        ("y+smiles", "column 'smiles' holds string, not numbers"),
    ],
)
def test_columns_that_cannot_be_targets(tmp_path: Path, target: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        build(f"{write(tmp_path, ROWS)},target={target}")


def test_a_table_without_numbers(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column of numbers for target=\\*"):
        build(f"{write(tmp_path, {'smiles': ['C'], 'y': ['high']})},target=*")


def test_an_infinite_label_of_several_is_no_gap(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="graph 1 has the target inf"):
        build(f"{write(tmp_path, ROWS | {'z': [1.0, np.inf, 2.0, None]})},target=y+z")


def test_tox21(mirror: Path) -> None:
    """Twelve assays, most molecules not in all of them; RDKit refuses eight of the 7,831 rows."""
    path = mirror / "moleculenet" / "tox21.csv"
    if not path.is_file():
        pytest.skip("PERMLAB_MIRROR has no moleculenet/tox21.csv")
    name = f"table:{path},target=*,skip_invalid=true"
    manifest = build(name)
    table = pa.csv.read_csv(path).to_pandas()
    labels = table.drop(columns="smiles")
    assert manifest.targets == list(labels.columns) and len(manifest.targets) == 12
    assert (manifest.task, manifest.classes, manifest.gaps) == ("classification", 2, True)
    assert manifest.graphs + manifest.dropped == len(table) and 0 < manifest.dropped < 20
    store = GraphStore.open(name)
    np.testing.assert_array_equal(store.y, labels.to_numpy(dtype=np.float32)[store.graph_id])
    one = GraphStore.open(name, "SR-p53")
    np.testing.assert_array_equal(one.y, store.y[:, -1])
    batch = store.batch(np.arange(64), 3)
    assert batch.y.shape == (64, 12) and batch.edge_attr.shape == (batch.edge_index.shape[1], 4)


def test_features_as_ogb_has_them_and_scaffolds(tmp_path: Path) -> None:
    text = write(tmp_path, ROWS)
    manifest = build(f"{text},features=ogb")
    assert manifest.nodes == 3 + 6 + 1 + 1 and "in_ring" in manifest.feature_names
    assert GraphStore.open(f"{text},features=ogb").scaffolds() == ["", "c1ccccc1", "", ""]
    with pytest.raises(DataError, match="features='all'; choose from qm9, ogb"):
        build(f"{text},features=all")
