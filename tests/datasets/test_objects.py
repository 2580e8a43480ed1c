"""Data objects of PyG: through the cache and back, against PyG's own batches; and what cannot be read."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.utils import to_undirected

from permlab.datasets.cache import build
from permlab.datasets.errors import DataError
from permlab.datasets.manifest import Manifest
from permlab.datasets.store import GraphStore

NAME = "mine.py:graphs"
PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], tuple[Manifest, GraphStore]]:
    """Builds what a factory returns, in chunks of three graphs."""
    monkeypatch.setattr("permlab.datasets.sources.objects.GRAPHS_A_CHUNK", 3)
    monkeypatch.setattr("permlab.datasets.catalogue.FACTORIES", {})
    from permlab.datasets import catalogue

    def make(returned: Any) -> tuple[Manifest, GraphStore]:
        catalogue.register_factory(NAME, lambda: returned, "1")
        return build(NAME, force=True), GraphStore.open(NAME)

    return make


def path(**changes: Any) -> Data:
    """0 – 1 – 2"""
    return Data(**{"x": torch.eye(3, 2), "edge_index": PATH, "y": torch.tensor([0.25])} | changes)


def random_graphs(count: int, targets: int) -> list[Data]:
    """Undirected and sorted, as PyG's own data sets are."""
    random = torch.Generator().manual_seed(0)
    graphs = []
    for i in range(count):
        n = i % 5 + 1
        ends = torch.randint(0, n, (2, 6), generator=random)
        rows = torch.rand(6, 3, generator=random)
        edge_index, edge_attr = to_undirected(ends[:, ends[0] != ends[1]], rows[ends[0] != ends[1]], n, "min")
        x = torch.randn(n, 4, generator=random)
        y = torch.randn(1, targets, generator=random)
        graphs.append(Data(x=x, edge_index=edge_index, edge_attr=edge_attr, y=y))
    return graphs


@pytest.mark.parametrize("targets", [1, 3])
def test_graphs_come_back_as_pyg_batches_them(made: Any, targets: int) -> None:
    graphs = random_graphs(11, targets)
    manifest, store = made(graphs)
    assert (manifest.graphs, manifest.task, len(manifest.targets), manifest.gaps) == (11, "regression", targets, False)
    picked = np.array([10, 0, 3, 4, 4])
    ours, theirs = store.batch(picked), Batch.from_data_list([graphs[i] for i in picked])
    for name in ("x", "edge_index", "edge_attr", "ptr", "batch"):
        assert torch.equal(getattr(ours, name), theirs[name]), name
    assert torch.equal(ours.y, theirs.y.squeeze(1) if targets == 1 else theirs.y)


def test_an_iterator_is_read_once(made: Any) -> None:
    manifest, store = made(iter(random_graphs(7, 1)))
    assert manifest.graphs == 7 and store.graph_id.tolist() == list(range(7))


def test_small_whole_numbers_are_one_hot(made: Any) -> None:
    """As ZINC has them: x [n, 1] and edge_attr [E] of a whole-number type."""
    first = path(x=torch.tensor([[0], [2], [1]]), edge_attr=torch.tensor([1, 1, 3, 3]))
    second = path(x=torch.tensor([[3], [0], [0]]), edge_attr=torch.tensor([2, 2, 1, 1]))
    manifest, store = made([first, second])
    assert manifest.feature_names == manifest.edge_feature_names == ["label_0", "label_1", "label_2", "label_3"]
    batch = store.batch(np.arange(2))
    assert torch.equal(batch.x, torch.eye(4)[[0, 2, 1, 3, 0, 0]])
    assert torch.equal(batch.edge_attr, torch.eye(4)[[1, 1, 3, 3, 2, 2, 1, 1]])


@pytest.mark.parametrize(
    "x",
    [
        torch.tensor([[0], [1000], [1]]),
        torch.tensor([[0], [-1], [1]]),
        torch.tensor([[0, 1], [2, 3], [4, 5]]),
        torch.tensor([[True], [False], [True]]),
        torch.tensor([1.0, 2.0, 0.0], dtype=torch.bfloat16),
    ],
    ids=["large", "negative", "several columns", "booleans", "bfloat16"],
)
def test_other_numbers_are_taken_as_they_are(made: Any, x: torch.Tensor) -> None:
    assert torch.equal(made([path(x=x)])[1].batch(np.arange(1)).x, x.float().reshape(3, -1))


def test_without_features_every_node_is_a_one(made: Any) -> None:
    manifest, store = made([path(x=None), path(x=None, num_nodes=5)])
    assert manifest.feature_names == ["constant_0"] and store.batch(np.arange(2)).x.tolist() == 8 * [[1.0]]
    assert manifest.edge_feature_names == [] and store.batch(np.arange(2)).edge_attr is None


def test_a_graph_without_edges_needs_no_edge_features(made: Any) -> None:
    lonely = path(edge_index=torch.zeros(2, 0, dtype=torch.int64))
    _, store = made([lonely, lonely, lonely, path(edge_attr=torch.ones(4, 2)), lonely])
    assert store.batch(np.array([0, 3])).edge_attr.tolist() == 4 * [[1.0, 1.0]]
    assert store.batch(np.array([0])).edge_attr.shape == (0, 2)


@pytest.mark.parametrize(
    ("y", "task", "classes", "stored"),
    [
        ([torch.tensor(5), torch.tensor([-1]), torch.tensor([[7]])], "classification", 3, [1, 0, 2]),
        ([2, 0, 1], "classification", 3, [2, 0, 1]),
        ([True, False, True], "classification", 2, [1, 0, 1]),
        ([1, 1, 1], "classification", 2, [1, 1, 1]),
        ([0.0, 1.0, 1.0], "classification", 2, [0, 1, 1]),
        ([0.5, 1.0, 1.0], "regression", 0, [0.5, 1, 1]),
        ([2.0, 3.0, 4.0], "regression", 0, [2, 3, 4]),
        ([torch.tensor([0.0, 1.0]), torch.tensor([1, 1]), torch.tensor([0, 0])], "classification", 2, None),
        ([torch.tensor([0.0, 2.0]), torch.tensor([1, 1]), torch.tensor([0, 0])], "regression", 0, None),
    ],
)
def test_the_task_follows_from_the_labels(made: Any, y: list, task: str, classes: int, stored: list | None) -> None:
    manifest, store = made([path(y=label) for label in y])
    assert (manifest.task, manifest.classes) == (task, classes)
    if stored is not None:
        assert store.y.tolist() == stored


def test_missing_labels(made: Any) -> None:
    manifest, store = made([path(y=torch.tensor([[1.0, float("nan"), 0.0]])), path(y=torch.tensor([[0.0, 1.0, 1.0]]))])
    assert (manifest.task, manifest.classes, manifest.gaps) == ("classification", 2, True)
    np.testing.assert_array_equal(store.y, [[1, np.nan, 0], [0, 1, 1]])
    manifest, store = made(([path(y=3.0), path(y=float("nan")), path(y=8.0)], {"task": "classification"}))
    assert manifest.classes == 2 and manifest.gaps
    np.testing.assert_array_equal(store.y, [0, np.nan, 1])


def test_a_factory_may_say_what_its_graphs_are(made: Any) -> None:
    said = {"task": "regression", "targets": ["a", "b"], "units": ["eV", ""], "default_target": "b", "holdout": 1}
    manifest, store = made(([path(y=torch.tensor([[0, 1]])) for _ in range(4)], said))
    assert (manifest.task, manifest.targets, manifest.holdout) == ("regression", ["a", "b"], 1)
    assert store.targets == ("b",) and store.y.tolist() == [1, 1, 1, 1] and len(store.split(0).holdout) == 1


@pytest.mark.parametrize(
    ("graphs", "says"),
    [
        ([], f"{NAME} has no graphs"),
        (3, "is a int, not an iterable"),
        ([path(), HeteroData()], "graph 1 is a HeteroData"),
        ([path(), path(y=None)], "graph 1 has no y"),
        ([path(), path(x=torch.ones(3, 5))], "graph 1 has 5 columns in x, the graphs before it have 2"),
        ([path(), path(x=None)], "graph 1 has 0 columns in x"),
        ([path(), path(edge_attr=torch.ones(4))], "graph 1 has 1 columns in edge_attr, the graphs before it have 0"),
        ([path(edge_attr=torch.ones(3))], "graph 0 has 4 edges and 3 rows of edge_attr"),
        ([path(), path(edge_index=PATH + 1)], "graph 1 has an edge to node 3; its nodes run from 0 to 2"),
        ([path(edge_index=PATH - 1)], "graph 0 has an edge to node -1"),
        ([path(edge_index=None)], "graph 0 has no edge_index"),
        ([path(edge_index=PATH.float())], "graph 0 has an edge_index of torch.float32"),
        ([path(), path(y=torch.ones(1, 2))], "graph 1 has 2 targets, the graphs before it have 1"),
        ([path(y=torch.ones(2, 2))], r"graph 0 has a y of shape \[2, 2\]"),
        ([path(y="high")], "graph 0: y is a str that does not read as numbers"),
        ([path(y=torch.tensor([1j]))], "graph 0: y holds complex64, not real numbers"),
        ([path(y=torch.ones(3))], r"one label per node.*give y the shape \[1, T\]"),
        ([path(), path(y=float("inf"))], "graph 1 has the target inf"),
        ([path(), path(x=torch.full((3, 2), float("nan")))], "graph 1 has a feature that is not a finite number"),
        (([path()], {"tasks": "regression"}), "says tasks of its graphs; it may say task, targets"),
        (([path()], {"task": "ranking"}), "task='ranking'; choose from classification, regression"),
        (([path()], {"task": "classification"}), "classes are whole numbers"),
        (([path(y=torch.tensor([[0, 2]]))], {"task": "classification"}), "each may only be 0 or 1"),
        (([path()], {"targets": ["a", "b"]}), "names 2 targets, but its graphs have 1"),
        (([path()], {"targets": "gap"}), "targets='gap' is not a list of names"),
        (([path()], {"targets": ["a"], "default_target": "b"}), "default_target='b' is not one of the targets"),
        (([path()], {"holdout": "a fifth"}), "holdout='a fifth' is neither"),
    ],
)
def test_graphs_that_cannot_be_read_are_named_in_one_line(made: Any, graphs: Any, says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        made(graphs)
    assert "\n" not in str(caught.value)


def test_memory_is_bounded_by_chunks(tmp_path: Path, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the last graph is made, no more than a chunk of the others is alive."""
    alive = 0

    class Counted(Data):
        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def graphs() -> Iterator[Data]:
        nonlocal alive
        for _ in range(30):
            alive += 1
            assert alive <= 3
            yield Counted(x=torch.eye(3, 2), edge_index=PATH, y=0.5)

    assert made(graphs())[0].graphs == 30
