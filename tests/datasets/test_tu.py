import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.datasets import TUDataset

from permlab.datasets import download
from permlab.datasets.cache import build
from permlab.datasets.download import unzip
from permlab.datasets.errors import DataError, DataUsageError
from permlab.datasets.sources import tu
from permlab.datasets.store import GraphStore
from tests.datasets.serving import serving

# Two graphs: a triangle with labels 0 0 1 and an edge with labels 1 1.
TINY = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "-1\n1\n",
    "node_labels": "0\n0\n1\n1\n1\n",
}


def archive(folder: Path, name: str = "TINY", **changes: str) -> Path:
    path = folder / f"{name}.zip"
    with zipfile.ZipFile(path, "w") as file:
        for part, text in (TINY | changes).items():
            file.writestr(f"{name}/{name}_{part}.txt", text)
    return path


@pytest.fixture
def own_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERMLAB_MIRROR", str(tmp_path))
    return tmp_path


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A web server on loopback instead of the TU collection; returns the folder that it serves."""
    served = tmp_path / "served"
    served.mkdir()
    with serving(served) as address:
        monkeypatch.delenv("PERMLAB_MIRROR", raising=False)
        monkeypatch.setattr(TUDataset, "url", address)
        yield served


def test_proteins_full_equals_what_tudataset_reads(mirror: Path, tmp_path: Path) -> None:
    manifest = build("proteins_full")
    assert (manifest.graphs, manifest.nodes, manifest.edges, manifest.max_nodes) == (1113, 43_471, 162_088, 620)
    assert (manifest.classes, manifest.holdout, len(manifest.feature_names)) == (2, 200, 29)
    store = GraphStore.open("proteins_full")
    assert np.bincount(store.y.astype(int)).tolist() == [663, 450]
    raw = tmp_path / "PROTEINS_full" / "raw"
    raw.mkdir(parents=True)
    with zipfile.ZipFile(mirror / "PROTEINS_full.zip") as file:
        for member in file.namelist():
            (raw / Path(member).name).write_bytes(file.read(member))
    reference = TUDataset(str(tmp_path), "PROTEINS_full", use_node_attr=True)
    (shard,) = store.shards
    for i, graph in enumerate(reference):
        nodes, edges = slice(*shard.node_ptr[i : i + 2]), slice(*shard.edge_ptr[i : i + 2])
        np.testing.assert_array_equal(shard.x[nodes], graph.x[:, :29].numpy())
        np.testing.assert_array_equal(np.stack([shard.src[edges], shard.dst[edges]]), graph.edge_index.numpy())
        assert shard.y[i] == graph.y.item()


def test_labels_are_the_features_if_there_are_no_attributes(own_mirror: Path) -> None:
    archive(own_mirror)
    manifest = build("tu:TINY")
    store = GraphStore.open("tu:TINY")
    assert manifest.feature_names == ["label_0", "label_1"]
    assert store.shards[0].x.tolist() == [[1, 0], [1, 0], [0, 1], [0, 1], [0, 1]]
    assert (store.y.tolist(), manifest.task, manifest.classes) == ([0.0, 1.0], "classification", 2)


def bare(folder: Path, edges: str = TINY["A"]) -> None:
    with zipfile.ZipFile(folder / "BARE.zip", "w") as file:
        for part in ("graph_indicator", "graph_labels"):
            file.writestr(f"BARE/BARE_{part}.txt", TINY[part])
        file.writestr("BARE/BARE_A.txt", edges)


def test_without_labels_the_feature_is_the_degree(own_mirror: Path) -> None:
    """One direction of an edge is enough, and loops do not count."""
    for edges in (TINY["A"], "1, 2\n2, 3\n1, 3\n4, 5\n5, 5\n"):
        bare(own_mirror, edges)
        assert build("tu:BARE").feature_names == ["degree_0", "degree_1", "degree_2"]
        assert GraphStore.open("tu:BARE").shards[0].x.argmax(1).tolist() == [2, 2, 2, 1, 1]
    assert build("tu:BARE,features=constant").feature_names == ["constant_0"]
    assert GraphStore.open("tu:BARE,features=constant").shards[0].x.tolist() == [[1.0]] * 5


@pytest.mark.parametrize("rays", [70, 200])
def test_large_degrees_share_a_column_and_have_their_logarithm(own_mirror: Path, rays: int) -> None:
    """In single precision: another last bit would be another data set, under the digest of its source."""
    with zipfile.ZipFile(own_mirror / "STAR.zip", "w") as file:
        file.writestr("STAR/STAR_A.txt", "".join(f"1, {i}\n" for i in range(2, rays + 2)))
        file.writestr("STAR/STAR_graph_indicator.txt", "1\n" * (rays + 1))
        file.writestr("STAR/STAR_graph_labels.txt", "1\n")
    names = build("tu:STAR").feature_names
    assert names[-2:] == ["degree_64_or_more", "log_degree"] and len(names) == 66
    x = GraphStore.open("tu:STAR").shards[0].x
    assert x[0, 64] == x[1, 1] == 1 and x[0, 65] == np.log1p(np.float32(rays))


def test_features_that_would_fill_the_memory_are_refused(own_mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tu, "MAX_ENTRIES", 14)  # five nodes with degrees 0, 1, 2 give 15 numbers
    bare(own_mirror, TINY["A"])
    with pytest.raises(DataError, match=r"tu:BARE has degrees up to 2 for 5 nodes: one-hot, .* 14 numbers"):
        build("tu:BARE")


def test_attributes_and_labels_by_choice(own_mirror: Path) -> None:
    archive(own_mirror, node_attributes="0.5\n1.5\n2.5\n3.5\n4.5\n")
    assert build("tu:TINY").feature_names == ["attribute_0"]
    assert build("tu:TINY,features=labels").feature_names == ["label_0", "label_1"]
    both = build("tu:TINY,features=attributes+labels+degree")
    assert both.feature_names == ["attribute_0", "label_0", "label_1", "degree_0", "degree_1", "degree_2"]
    assert GraphStore.open("tu:TINY,features=attributes+labels", build_missing=True).shards[0].x[2].tolist() == [
        2.5,
        0,
        1,
    ]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("attributes", "tu:TINY has no node attributes; choose features= from degree, constant, labels"),
        ("colours", "features='colours'; choose auto, or attributes, labels, degree, constant"),
        ("labels+labels", "features='labels\\+labels'"),
    ],
)
def test_missing_features_are_refused(own_mirror: Path, features: str, message: str) -> None:
    archive(own_mirror)
    with pytest.raises(DataUsageError, match=message):
        build(f"tu:TINY,features={features}")


def test_one_of_several_targets_is_chosen(own_mirror: Path) -> None:
    archive(own_mirror, graph_attributes="0.5, 2.5\n1.5, 3.5\n")
    manifest = build("tu:TINY")
    assert (manifest.task, manifest.targets, manifest.gaps) == ("regression", ["target_0", "target_1"], False)
    assert GraphStore.open("tu:TINY").y.tolist() == [0.5, 1.5]
    assert GraphStore.open("tu:TINY", "target_1").y.tolist() == [2.5, 3.5]
    assert GraphStore.open("tu:TINY", "*").y.tolist() == [[0.5, 2.5], [1.5, 3.5]]


def test_labels_and_attributes_of_edges(own_mirror: Path) -> None:
    """The lines of A: 12 21 23 32 13 31 in the first graph, 45 54 in the second."""
    archive(own_mirror, edge_labels="1\n1\n2\n2\n3\n3\n2\n2\n")
    manifest = build("tu:TINY")
    assert manifest.edge_feature_names == ["label_0", "label_1", "label_2"]
    batch = GraphStore.open("tu:TINY").batch(np.array([1, 0]))
    assert batch.edge_index.T.tolist() == [[0, 1], [1, 0], [2, 3], [2, 4], [3, 2], [3, 4], [4, 2], [4, 3]]
    assert batch.edge_attr.argmax(1).tolist() == [1, 1, 0, 2, 0, 1, 2, 1]
    archive(own_mirror, edge_labels="1\n" * 8, edge_attributes="".join(f"{i}, 0.5\n" for i in range(8)))
    assert build("tu:TINY").edge_feature_names == ["attribute_0", "attribute_1", "label_0"]
    batch = GraphStore.open("tu:TINY").batch(np.array([0]))
    assert batch.edge_attr.tolist() == [[i, 0.5, 1] for i in (0, 4, 1, 2, 5, 3)]


def test_edge_features_are_those_that_tudataset_reads(own_mirror: Path, tmp_path: Path) -> None:
    """In the order of PyG: attributes, then labels."""
    attributes = "".join(f"{i}.5\n" for i in range(8))
    path = archive(own_mirror, edge_labels="1\n1\n2\n2\n3\n3\n2\n2\n", edge_attributes=attributes)
    build("tu:TINY")
    raw = tmp_path / "TINY" / "raw"
    raw.mkdir(parents=True)
    with zipfile.ZipFile(path) as file:
        for member in file.namelist():
            (raw / Path(member).name).write_bytes(file.read(member))
    theirs = Batch.from_data_list(list(TUDataset(str(tmp_path), "TINY", use_edge_attr=True)))
    ours = GraphStore.open("tu:TINY").batch(np.arange(2))
    assert torch.equal(ours.edge_index, theirs.edge_index) and torch.equal(ours.edge_attr, theirs.edge_attr)


def test_a_data_set_is_downloaded_once(server: Path) -> None:
    archive(server)
    seen: list[tuple[int, int | None]] = []
    manifest = build("tu:TINY", download=lambda done, total: seen.append((done, total)))
    assert manifest.graphs == 2 and len(manifest.source_digest) == 64
    assert seen[-1] == ((server / "TINY.zip").stat().st_size,) * 2
    (server / "TINY.zip").unlink()
    assert build("tu:TINY") == manifest  # built once, the source is not asked again


def test_a_download_that_does_not_exist_is_named(server: Path, cache: Path) -> None:
    with pytest.raises(DataError, match=r"NOPE.zip cannot be fetched.*PERMLAB_MIRROR"):
        build("tu:NOPE")
    assert not [path for path in cache.iterdir() if path.is_dir()]


def test_a_download_above_the_limit_is_refused(server: Path, tmp_path: Path) -> None:
    archive(server)
    url = f"{TUDataset.url}/TINY.zip"
    with pytest.raises(DataError, match="larger than 0 MiB"):
        download.fetch(url, tmp_path / "TINY.zip", lambda done, total: None, max_bytes=100)
    assert not (tmp_path / "TINY.zip").exists()


def test_a_zip_that_writes_outside_its_folder_is_refused(own_mirror: Path, cache: Path) -> None:
    path = archive(own_mirror)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("../../escaped.txt", "out")
    with pytest.raises(DataError, match=r"refused.*'../../escaped.txt'"):
        build("tu:TINY")
    assert not list(own_mirror.parent.rglob("escaped.txt")) and not list(cache.rglob("escaped.txt"))


def test_a_zip_that_unpacks_above_the_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="TINY.*limit"):
        unzip(archive(tmp_path), tmp_path / "out", {"TINY_A.txt"}, max_bytes=10)


def test_a_zip_bomb_is_refused_before_it_unpacks(own_mirror: Path, cache: Path) -> None:
    with zipfile.ZipFile(own_mirror / "TINY.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for part, text in TINY.items():
            file.writestr(f"TINY/TINY_{part}.txt", "0\n" * 20_000_000 if part == "node_labels" else text)
    with pytest.raises(DataError, match="TINY.zip.*100 times"):
        build("tu:TINY")
    assert not list(cache.rglob("*.txt"))


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ("node_labels", "0\n0\n1\n1\n2000000000\n", "node labels up to 2,000,000,000 for 5 nodes"),
        ("graph_indicator", "1\n1\n1\n2\n2000000000\n", "2 targets for 2000000000 graphs"),
        ("edge_labels", "0\n" * 7 + "2000000000\n", "edge labels up to 2,000,000,000 for 8 edges"),
        ("edge_labels", "0\n" * 7, "7 lines of edge features for 8 edges"),
        ("A", "1, 2\n2, 2000000000\n", "names a node that does not exist; there are 5"),
        ("A", f"1, {'9' * 5000}\n", "cannot be read as a TU data set"),
    ],
)
def test_numbers_that_would_fill_the_memory_are_refused(own_mirror: Path, part: str, text: str, message: str) -> None:
    archive(own_mirror, **{part: text})
    with pytest.raises(DataError, match=message):
        build("tu:TINY")


def test_a_file_that_is_not_a_zip_is_refused(own_mirror: Path) -> None:
    (own_mirror / "TINY.zip").write_bytes(b"half a zip")
    with pytest.raises(DataError, match="TINY.zip is not a zip file"):
        build("tu:TINY")


def test_a_zip_of_another_data_set_is_refused(own_mirror: Path) -> None:
    archive(own_mirror, "OTHER").rename(own_mirror / "TINY.zip")
    with pytest.raises(DataError, match="TINY_A.txt"):
        build("tu:TINY")


def test_tables_that_do_not_parse_are_refused(own_mirror: Path) -> None:
    archive(own_mirror, A="1, two\n")
    with pytest.raises(DataError, match="cannot be read as a TU data set"):
        build("tu:TINY")


def test_a_mirror_that_is_not_a_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERMLAB_MIRROR", str(tmp_path / "gone"))
    with pytest.raises(DataError, match="PERMLAB_MIRROR=.*gone"):
        build("proteins_full")


def test_invalid_names_are_refused() -> None:
    with pytest.raises(DataUsageError, match="not the name of a TU data set"):
        build("tu:../../etc")


def test_the_last_graph_may_have_no_edges(own_mirror: Path) -> None:
    archive(own_mirror, A="1, 2\n2, 1\n")
    build("tu:TINY")
    assert np.diff(GraphStore.open("tu:TINY").shards[0].edge_ptr).tolist() == [2, 0]


@pytest.mark.parametrize(
    "changes", [{"graph_labels": "1\n2\n3\n"}, {"graph_indicator": "2\n1\n1\n2\n1\n"}, {"graph_labels": ""}]
)
def test_files_that_do_not_fit_together_are_refused(own_mirror: Path, changes: dict[str, str]) -> None:
    archive(own_mirror, **changes)
    with pytest.raises(DataError):
        build("tu:TINY")


def test_a_damaged_member_is_refused(own_mirror: Path) -> None:
    path = own_mirror / "TINY.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("TINY/TINY_A.txt", TINY["A"] * 999)
    content = bytearray(path.read_bytes())
    content[60:70] = b"\xff" * 10
    path.write_bytes(content)
    with pytest.raises(DataError, match="TINY.zip is not a zip file"):
        build("tu:TINY")


def test_proteins_by_their_labels_as_the_fair_comparison_has_them(mirror: Path) -> None:
    manifest = build("proteins_full,features=labels")
    assert (manifest.name, manifest.feature_names) == (
        "proteins_full,features=labels",
        ["label_0", "label_1", "label_2"],
    )
    assert manifest.holdout == 200
    (shard,) = GraphStore.open("proteins_full,features=labels").shards
    assert np.bincount(shard.x.argmax(1)).tolist() == [21151, 20931, 1389]
    assert (shard.x.sum(1) == 1).all()
