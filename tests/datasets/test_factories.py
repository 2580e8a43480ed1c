"""Data sets that a function makes, and those of PyG: how they are named, built, and read without their code."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import FakeDataset

from permlab.datasets import catalogue
from permlab.datasets.cache import build, ensure
from permlab.datasets.catalogue import DatasetNameError, parse_name, register_factory
from permlab.datasets.errors import DataError, DataUsageError
from permlab.datasets.manifest import CacheBroken
from permlab.datasets.store import GraphStore

HEAD = "some folder/mine.py:stars"


def stars(count: int = 4, size: float = 3, loud: bool = False, name: str = "") -> Iterator[Data]:
    """Stars with one to four rays."""
    for i in range(count):
        rays = i % 4 + 1
        edge_index = torch.stack([torch.zeros(rays, dtype=torch.int64), torch.arange(1, rays + 1)])
        yield Data(x=torch.full((rays + 1, 1), float(size)), edge_index=edge_index, y=rays + (0.25 if loud else 0.5))


@pytest.fixture(autouse=True)
def factories(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A table of the test's own."""
    table: dict[str, Any] = {}
    monkeypatch.setattr(catalogue, "FACTORIES", table)
    return table


def test_a_registered_function_makes_a_data_set() -> None:
    register_factory(HEAD, stars, "1")
    manifest = build(f"{HEAD},size=2.5,count=6")
    assert (manifest.name, manifest.graphs) == (f"{HEAD},count=6,size=2.5", 6)
    store = GraphStore.open(f"{HEAD},count=6,size=2.5")
    assert np.diff(store.node_ptr).tolist() == [2, 3, 4, 5, 2, 3] and store.batch(np.arange(6)).x.unique() == 2.5
    assert store.y.tolist() == [1.5, 2.5, 3.5, 4.5, 1.5, 2.5]


def test_values_are_read_as_what_they_look_like(factories: dict[str, Any]) -> None:
    seen: dict[str, Any] = {}

    def graphs(**values: Any) -> Iterator[Data]:
        seen.update(values)
        return stars()

    register_factory(HEAD, graphs, "1")
    build(f"{HEAD},a=true,b=False,c=3,d=-2.5,e=1e-3,f=train,g=,h2=3x")
    assert seen == {"a": True, "b": False, "c": 3, "d": -2.5, "e": 1e-3, "f": "train", "g": "", "h2": "3x"}
    assert type(seen["c"]) is int and type(seen["a"]) is bool


def test_folders_are_safe_and_different(cache: Path) -> None:
    register_factory(HEAD, stars, "1")
    register_factory("other/mine.py:stars", stars, "1")
    names = [HEAD, "other/mine.py:stars", f"{HEAD},count=3", f"{HEAD},name=../../x", "pyg:ZINC,root=/a", "pyg:ZINC"]
    folders = [parse_name(name).folder for name in names]
    assert len(set(folders)) == len(names)
    assert all((cache / folder).resolve().parent == cache.resolve() for folder in folders)


def test_changed_code_rebuilds_and_unchanged_code_does_not() -> None:
    calls: list[int] = []

    def counting(count: int = 4) -> Iterator[Data]:
        calls.append(count)
        return stars(count)

    for digest, times in (("1", 1), ("1", 1), ("2", 2)):
        register_factory(HEAD, counting, digest)
        ensure(HEAD)
        assert len(calls) == times
    assert build(f"{HEAD},count=2").source_digest != build(f"{HEAD},count=3").source_digest


@pytest.mark.parametrize("head", ["mine.py:stars", "some folder/mine.py:stars", "package.module:stars"])
def test_what_is_built_is_read_without_its_code(factories: dict[str, Any], cache: Path, head: str) -> None:
    with pytest.raises(DatasetNameError, match="is made by code that has to be named on the command line"):
        parse_name(f"{head},count=3")
    register_factory(head, stars, "1")
    manifest = build(f"{head},count=3")
    factories.clear()
    assert parse_name(f"{head},count=3").source.digest() is None
    assert GraphStore.open(f"{head},count=3", build_missing=True).manifest == build(f"{head},count=3") == manifest
    with pytest.raises(DatasetNameError, match="command line"):
        GraphStore.open(f"{head},count=2", build_missing=True)
    (cache / parse_name(f"{head},count=3").folder / "az.npy").unlink()
    with pytest.raises(CacheBroken, match="az.npy is missing"):
        GraphStore.open(f"{head},count=3")
    with pytest.raises(DatasetNameError, match="command line"):
        build(f"{head},count=3")


@pytest.mark.parametrize("head", ["mine:graphs", "tux:MUTAG", "mine.py", "mine.py:", "a.b:c-d", "mine.txt.:x"])
def test_what_does_not_look_like_code_is_an_unknown_name(head: str) -> None:
    with pytest.raises(DatasetNameError, match="unknown data set"):
        parse_name(head)


def test_a_module_without_a_dot_may_be_registered() -> None:
    register_factory("mine:graphs", stars, "1")
    assert build("mine:graphs").graphs == 4


@pytest.mark.parametrize("head", ["qm9", "tu:MUTAG", "mine.py:x,y=3"])
def test_heads_that_are_taken(head: str) -> None:
    with pytest.raises(DataUsageError, match="cannot be the head of a data set's name"):
        register_factory(head, stars, "1")


def failing(where: str = "call") -> Iterator[Data]:
    if where == "call":
        raise ValueError("no such\nfile")

    def graphs() -> Iterator[Data]:
        yield from stars(2)
        raise FileNotFoundError("raw.bin")

    return graphs()


@pytest.mark.parametrize(
    ("call", "parameters", "says"),
    [
        (stars, ",colour=red", "cannot be called with these parameters: got an unexpected keyword argument 'colour'"),
        (failing, "", r"raised ValueError: no such file \(test_factories.py, line \d+\)"),
        (failing, ",where=later", r"raised FileNotFoundError: raw.bin \(test_factories.py, line \d+\)"),
        (lambda: None, "", "is a NoneType, not an iterable"),
        (stars, ",count=1,count=2", "sets a parameter twice"),
    ],
)
def test_calls_that_fail_are_one_line(call: Callable[..., Any], parameters: str, says: str, cache: Path) -> None:
    register_factory(HEAD, call, "1")
    with pytest.raises(DataError, match=says) as caught:
        build(HEAD + parameters)
    assert "\n" not in str(caught.value) and not [folder for folder in cache.iterdir() if folder.is_dir()]


def seed() -> None:
    """FakeDataset draws from both."""
    random.seed(0)
    torch.manual_seed(0)


def test_a_data_set_of_pyg_by_its_class() -> None:
    text = "pyg:FakeDataset,num_graphs=40,avg_num_nodes=9,num_channels=5,edge_dim=2,num_classes=3,task=graph"
    text += ",is_undirected=true"
    seed()
    manifest = build(text)
    assert (manifest.graphs, manifest.task, manifest.classes) == (40, "classification", 3)
    assert len(manifest.feature_names) == 5 and len(manifest.edge_feature_names) == 2
    assert parse_name(text).text == manifest.name and build(text) == manifest
    seed()
    theirs = FakeDataset(40, 9, num_channels=5, edge_dim=2, num_classes=3, task="graph", is_undirected=True)
    store = GraphStore.open(text)
    assert np.diff(store.node_ptr).tolist() == [graph.num_nodes for graph in theirs]
    assert store.y.tolist() == theirs.y.tolist()


def test_pyg_keeps_its_files_in_the_cache_unless_told_otherwise(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots: list[str] = []

    def offline(self: Any, root: str, subset: bool = False, split: str = "train") -> None:
        roots.append(root)
        raise ConnectionError("the network\nis unreachable")

    monkeypatch.setattr("torch_geometric.datasets.ZINC.__init__", offline)
    for root, text in ((cache / "pyg" / "ZINC", ""), (tmp_path / "own", f",root={tmp_path}/own")):
        with pytest.raises(
            DataError, match=f"PyG cannot read or download ZINC .*{root}.*network is unreachable"
        ) as caught:
            build(f"pyg:ZINC,subset=true,split=val{text}")
        assert roots.pop() == str(root) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pyg", "needs the name of a class of PyG, as in pyg:ZINC"),
        ("pyg:../x", "needs the name of a class of PyG"),
        ("pyg:ZINK", "PyG has no data set 'ZINK'; did you mean 'ZINC'?"),
        ("pyg:Data", "PyG has no data set 'Data'"),
        ("pyg:ZINC,subsets=true", "unexpected keyword argument 'subsets'; its arguments are root, subset, split"),
        ("pyg:ZINC,split=all", r"AssertionError: assert split in \['train', 'val', 'test'\]"),
        ("pyg:TUDataset", "missing a required argument: 'name'"),
        ("pyg:FakeDataset,task=node", "one label per node"),
        ("pyg:KarateClub", "one label per node"),
    ],
)
def test_names_that_pyg_does_not_know(text: str, says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        build(text)
    assert "\n" not in str(caught.value)
