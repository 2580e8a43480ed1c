"""Several targets, missing labels, and choosing targets when a data set is opened."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from permlab.datasets.cache import build
from permlab.datasets.chunk import from_arrow, make_chunk, to_arrow
from permlab.datasets.errors import DataError, DataUsageError
from permlab.datasets.manifest import CacheBroken
from permlab.datasets.store import GraphStore

# What these data sets had before there were several targets and edge features: cell keys hold these digests.
BEFORE = {
    "synthetic": "1d15ab332008f91870f90e6172b3207f12c0744281942a559a164bde2370290d",
    "synthetic,task=classification": "d1d9e8e4e1282feee6f9517d3499b4f98a2c61baaf8525bff7131a6d1967e5a6",
    "proteins_full": "880e65b25b8e7c4ff18307ef8a399f659911e4d5ef02871e6f40f43257d7aef2",
}


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Three targets; water has no logp, benzene only a mass."""
    rows = ["smiles,name,logp,toxic,mass", "CCO,a,-0.5,0,46", "c1ccccc1,b,,,78", "O,c,,1,18", "C,d,1.5,1,16"]
    (tmp_path / "mine.csv").write_text("\n".join(rows) + "\n")
    return f"table:{tmp_path}/mine.csv,target=*"


@pytest.mark.parametrize("name", BEFORE)
def test_data_sets_with_one_target_keep_their_digests(name: str, request: pytest.FixtureRequest) -> None:
    if name == "proteins_full":
        request.getfixturevalue("mirror")
    manifest = build(name)
    assert manifest.digest == BEFORE[name]
    assert len(manifest.targets) == len(manifest.units) == 1 and manifest.edge_feature_names == []


@given(
    st.integers(1, 4).flatmap(
        lambda t: arrays(np.float32, (3, t), elements=st.floats(-9, 9, width=32) | st.just(np.nan))
    )
)
def test_targets_survive_arrow(y: np.ndarray) -> None:
    none = np.array([], dtype=np.int64)
    chunk = make_chunk(np.ones((3, 1)), np.ones(3, dtype=int), none, none, y, np.arange(3))
    batch = to_arrow(chunk)
    kind = batch.schema.field("y").type
    assert str(kind) == "float" if y.shape[1] == 1 else kind.list_size == y.shape[1]
    np.testing.assert_array_equal(from_arrow(batch).y, y[:, 0] if y.shape[1] == 1 else y)


def test_a_store_opens_with_the_targets_that_are_named(table: str) -> None:
    build(table)
    everything = np.array([[-0.5, 0, 46], [np.nan, np.nan, 78], [np.nan, 1, 18], [1.5, 1, 16]], dtype=np.float32)
    for target, columns in ((None, [0, 1, 2]), ("*", [0, 1, 2]), ("mass+logp", [2, 0])):
        store = GraphStore.open(table, target)
        np.testing.assert_array_equal(store.y, everything[:, columns])
        assert store.targets == tuple(np.array(["logp", "toxic", "mass"])[columns]) and len(store.units) == len(columns)
    store = GraphStore.open(table, "toxic")
    np.testing.assert_array_equal(store.y, everything[:, 1])
    batch = store.batch(np.array([3, 1]))
    assert batch.y.shape == (2,) and batch.y.dtype == torch.float32 and batch.y[0] == 1 and batch.y[1].isnan()
    assert GraphStore.open(table).batch(np.array([3, 1])).y.shape == (2, 3)


def test_another_device_keeps_the_choice(table: str) -> None:
    store = GraphStore.open(table, "mass+logp", build_missing=True).to("meta")
    assert store.targets == ("mass", "logp") and store.batch(np.arange(2)).y.shape == (2, 2)
    assert GraphStore.open(table, "mass").to("meta").batch(np.arange(2)).y.shape == (2,)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("weight", "has no target 'weight'; choose from logp, toxic, mass, or \\* for all$"),
        ("logp+", "has no target ''; choose from"),
        ("", "has no target ''; choose from"),
        ("mass+mass", "names a target of .* twice"),
    ],
)
def test_targets_that_do_not_exist(table: str, target: str, says: str) -> None:
    build(table)
    with pytest.raises(DataUsageError, match=says) as caught:
        GraphStore.open(table, target)
    assert "\n" not in str(caught.value)


def test_labels_may_be_missing_only_where_the_reading_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: np.ndarray, **kwargs: np.ndarray) -> object:
        x, counts, src, dst, y, graph_id = args
        return make_chunk(x, counts, src, dst, np.where(graph_id == 7, np.nan, y), graph_id)

    monkeypatch.setattr("permlab.datasets.sources.synthetic.make_chunk", broken)
    with pytest.raises(DataError, match="graph 7 has no label of 'score'"):
        build("synthetic,graphs=20")


def as_format_1(folder: Path) -> None:
    """The manifest as the version before wrote it; without a seal, which is not checked first."""
    path = folder / "manifest.json"
    document = json.loads(path.read_text())
    for key in ("targets", "units", "default_target", "gaps", "edge_feature_names", "dropped", "seal"):
        del document[key]
    path.write_text(json.dumps(document | {"format": 1, "target": "score", "unit": ""}))


def test_a_cache_of_the_version_before_is_rebuilt(cache: Path) -> None:
    name = "synthetic,graphs=20"
    manifest = build(name)
    as_format_1(cache / name)
    with pytest.raises(CacheBroken, match="has cache format 1, this version reads 2; rebuild it with"):
        GraphStore.open(name)
    assert GraphStore.open(name, build_missing=True).manifest == manifest
    as_format_1(cache / name)
    assert build(name) == manifest
