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
    build(f"{text},skip_invalid=true")
    store = GraphStore.open(f"{text},skip_invalid=true")
    assert store.graph_id.tolist() == [0, 2] and store.y.tolist() == [1.0, 3.0]


def test_a_missing_target_is_named_or_skipped(tmp_path: Path) -> None:
    text = write(tmp_path, {"smiles": ["C", "CC", "O"], "y": [1.5, None, 3.0]})
    with pytest.raises(DataError, match="row 2: .*'y'"):
        build(text)
    manifest = build(f"{text},skip_invalid=true")
    assert (manifest.graphs, manifest.nodes) == (2, 8)


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
