"""MoleculeNet from a mirror folder and from a web server on loopback."""

import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest

from permlab.datasets.cache import build
from permlab.datasets.errors import DataError, DataUsageError
from permlab.datasets.sources import moleculenet
from permlab.datasets.store import GraphStore
from tests.datasets.serving import serving

SIDER = [f"effect {i}" for i in range(27)]


@pytest.fixture
def own_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERMLAB_MIRROR", str(tmp_path))
    (tmp_path / "moleculenet").mkdir()
    return tmp_path / "moleculenet"


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A web server instead of the bucket; returns the folder that it serves."""
    served = tmp_path / "served"
    served.mkdir()
    with serving(served) as address:
        monkeypatch.delenv("PERMLAB_MIRROR", raising=False)
        monkeypatch.setattr(moleculenet, "URL", address)
        yield served


def real(mirror: Path, name: str) -> Path:
    path = mirror / "moleculenet" / name
    if not path.is_file():
        pytest.skip(f"PERMLAB_MIRROR has no moleculenet/{name}")
    return path


def test_tox21_lists_what_rdkit_does_not_read(mirror: Path, cache: Path) -> None:
    table = pyarrow.csv.read_csv(real(mirror, "tox21.csv")).to_pandas()
    manifest = build("moleculenet:tox21")
    labels = table.drop(columns="smiles")
    assert manifest.targets == list(labels.columns)
    assert (manifest.task, manifest.classes, manifest.gaps) == ("classification", 2, True)
    assert manifest.graphs + manifest.dropped == len(table)
    listed = pyarrow.csv.read_csv(cache / "moleculenet-tox21" / "left_out.csv").to_pandas()
    assert len(listed) == manifest.dropped > 0
    assert manifest.left_out == {"SMILES not read by RDKit": manifest.dropped} == dict(listed.reason.value_counts())
    assert table.smiles[listed.row - 1].tolist() == listed.smiles.tolist()
    store = GraphStore.open("moleculenet:tox21")
    np.testing.assert_array_equal(store.y, labels.to_numpy(dtype=np.float32)[store.graph_id])
    scaffolds = store.scaffolds()
    assert len(scaffolds) == len(store) and "" in scaffolds and "c1ccccc1" in scaffolds


def test_regressions_have_units(mirror: Path) -> None:
    real(mirror, "delaney.csv")
    manifest = build("moleculenet:esol")
    assert (manifest.graphs, manifest.task, manifest.targets) == (1128, "regression", ["log_solubility"])
    assert manifest.units == ["log mol/L"]
    assert GraphStore.open("moleculenet:esol").y.min() == pytest.approx(-11.6)


def test_a_seeded_subset(own_mirror: Path) -> None:
    (own_mirror / "hiv.csv").write_text("smiles,HIV_active\n" + "".join(f"{'C' * i},{i % 2}\n" for i in range(1, 30)))
    build("moleculenet:hiv")
    build("moleculenet:hiv,limit=7")
    whole, part = GraphStore.open("moleculenet:hiv"), GraphStore.open("moleculenet:hiv,limit=7")
    assert len(part) == 7 and len(np.unique(part.graph_id)) == 7
    np.testing.assert_array_equal(part.y, whole.y[part.graph_id])
    with pytest.raises(DataUsageError, match="29 rows; limit=30"):
        build("moleculenet:hiv,limit=30")


def test_features_as_in_qm9(own_mirror: Path) -> None:
    (own_mirror / "hiv.csv").write_text("smiles,HIV_active\nC,0\nO,1\n")
    assert build("moleculenet:hiv").nodes == 2
    assert build("moleculenet:hiv,features=qm9").nodes == 8


def test_a_label_that_comes_late_is_a_number_all_the_same(own_mirror: Path) -> None:
    """Arrow guesses types from the first block of a file."""
    late = f"C{',0' * 26},\n" * 60_000 + f"CC{',1' * 27}\n"
    (own_mirror / "sider.csv").write_text(f"smiles,{','.join(SIDER)}\n{late}")
    build("moleculenet:sider,limit=1,seed=0")
    assert GraphStore.open("moleculenet:sider,limit=1,seed=0").y.shape == (1, 27)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("hiv", "smiles,HIV_active\nC,2\nO,0\n", "labels other than 0 and 1"),
        ("hiv", "smiles,active\nC,1\n", "hiv.csv is not the data set hiv.*'HIV_active'.*2 columns: smiles, active"),
        ("tox21", "smiles,a,b\nC,1,0\n", "needs a column of SMILES and 12 of labels"),
        ("esol", "logSolubility\n1\n", "needs a column of SMILES"),
        ("hiv", "smiles,HIV_active\nC,yes\n", "hiv.csv cannot be read"),
        ("hiv", "", "hiv.csv cannot be read as CSV"),
        ("hiv", "smiles,HIV_active\n", "hiv.csv has no rows"),
        ("hiv", "smiles,HIV_active\nC1CC,1\n", "moleculenet:hiv has no graphs"),
    ],
)
def test_files_that_are_something_else(own_mirror: Path, name: str, text: str, message: str) -> None:
    (own_mirror / f"{name}.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        build(f"moleculenet:{name}")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("qm7", "no data set 'qm7'; choose from hiv, tox21, esol"),
        ("hiv,features=all", "features='all'; choose from qm9, ogb, ogb_hydrogens"),
        ("hiv,limit=-1", "neither may be negative"),
        ("hiv,target=HIV_active", "data.target=HIV_active"),
    ],
)
def test_wrong_names(name: str, message: str) -> None:
    with pytest.raises(DataUsageError, match=message):
        build(f"moleculenet:{name}")


def test_a_download_has_the_published_digest_or_is_refused(bucket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = gzip.compress(f"smiles,{','.join(SIDER)}\nC{',1' * 27}\nO{',0' * 27}\n".encode())
    (bucket / "sider.csv.gz").write_bytes(content)
    with pytest.raises(DataError, match="sider.csv.gz has the MD5 digest .*, published is 77c0ef42"):
        build("moleculenet:sider")
    known = moleculenet.SETS["sider"]._replace(md5=hashlib.md5(content).hexdigest())
    monkeypatch.setitem(moleculenet.SETS, "sider", known)
    seen: list[int] = []
    manifest = build("moleculenet:sider", download=lambda done, total: seen.append(done))
    assert manifest.graphs == 2 and seen[-1] == len(content)
    assert manifest.source_digest == hashlib.sha256(content).hexdigest()


def test_a_download_without_a_published_digest_must_not_change(bucket: Path) -> None:
    file = bucket / "SAMPL.csv"
    file.write_text("iupac,smiles,expt,calc\nmethane,C,2.0,2.4\n")
    assert build("moleculenet:freesolv").targets == ["hydration_free_energy"]
    build("moleculenet:freesolv", force=True)
    file.write_text("iupac,smiles,expt,calc\nmethane,C,2.1,2.4\n")
    with pytest.raises(DataError, match="SAMPL.csv.*at its first download it had"):
        build("moleculenet:freesolv", force=True)


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b"smiles" * 99)[:-9]], ids=["no archive", "truncated"])
def test_a_broken_archive_is_refused(own_mirror: Path, content: bytes) -> None:
    (own_mirror / "muv.csv.gz").write_bytes(content)
    with pytest.raises(DataError, match="muv.csv.gz is not a gzip file"):
        build("moleculenet:muv")


def test_a_gzip_bomb_is_refused(own_mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moleculenet, "MAX_TEXT", 1 << 20)
    (own_mirror / "muv.csv.gz").write_bytes(gzip.compress(b"0" * (3 << 20)))
    with pytest.raises(DataError, match="muv.csv.gz is refused: it unpacks to more than 1 MiB"):
        build("moleculenet:muv")
