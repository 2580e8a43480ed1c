from typing import Any

import numpy as np
import pytest
import torch

from permlab.datasets.batch import GraphBatch
from permlab.datasets.store import GraphStore
from permlab.tasks.data import EvaluationLoader, GraphData, TrainLoader

SPLITS = ("train", "holdout", "holdout_perm")


def make_data(store: GraphStore, seed: int = 0, **options: Any) -> GraphData:
    return GraphData(store, store.split(seed), SPLITS, seed, batch_size=16, **options)


def epoch_of(data: GraphData, epoch: int, start: int = 0) -> list[GraphBatch]:
    data.last_epoch, data.resume_at = epoch, (epoch, start)
    return list(TrainLoader(data))


def features(batches: list[GraphBatch]) -> list[list[float]]:
    return [batch.x.sum(0).tolist() for batch in batches]


def test_an_epoch_is_every_training_graph_once_in_an_order_of_its_own(store: GraphStore) -> None:
    data = make_data(store)
    first, second = epoch_of(data, 0), epoch_of(data, 1)
    assert len(first) == len(TrainLoader(data)) == 5
    for epoch in (first, second):
        assert sorted(torch.cat([batch.y for batch in epoch]).tolist()) == sorted(store.y[data.split.train].tolist())
    assert features(first) != features(second)
    assert features(first) == features(epoch_of(make_data(store), 0))  # a function of seed and epoch
    assert [batch.step for batch in first] == [0, 1, 2, 3, 4]


def test_a_later_start_gives_the_rest_of_the_same_epoch(store: GraphStore) -> None:
    data = make_data(store, permutations=2)
    whole, rest = epoch_of(data, 3), epoch_of(data, 3, start=4)
    assert len(rest) == len(whole) - 4
    for left, right in zip(whole[4:], rest, strict=True):
        assert left.step == right.step
        torch.testing.assert_close(left.x, right.x, rtol=0, atol=0)


def test_only_the_epoch_that_is_resumed_begins_later(store: GraphStore) -> None:
    data = make_data(store)
    data.resume_at, data.last_epoch = (2, 3), 2
    assert [batch.step for batch in TrainLoader(data)] == [3, 4]
    data.last_epoch = 3
    assert [batch.step for batch in TrainLoader(data)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("options", [{}, {"permutations": 2}, {"permutations": 2, "fresh_permutations": True}], ids=str)
def test_the_first_epoch_can_be_repeated(store: GraphStore, options: dict[str, Any]) -> None:
    data = make_data(store, repeat_first_epoch=True, **options)
    for first, later in zip(epoch_of(data, 0), epoch_of(data, 5), strict=True):
        assert torch.equal(first.x, later.x) and first.step == later.step
    assert features(epoch_of(make_data(store, **options), 0)) != features(epoch_of(make_data(store, **options), 5))


def test_another_loader_can_take_the_place_of_the_plain_one(store: GraphStore) -> None:
    data = make_data(store)
    assert type(data.train_dataloader()) is TrainLoader
    data.train_loader = lambda its_data: [its_data, "batches"]
    assert data.train_dataloader() == [data, "batches"]


def copies(data: GraphData, epoch: int) -> dict[float, set[tuple[float, ...]]]:
    """The node orders in which every training graph came; a graph is known by the sum of its features."""
    seen: dict[float, set[tuple[float, ...]]] = {}
    for batch in epoch_of(data, epoch):
        for first, last in zip(batch.ptr[:-1], batch.ptr[1:], strict=True):
            rows = batch.x[first:last, 0].tolist()
            seen.setdefault(round(sum(sorted(rows)), 3), set()).add(tuple(rows))
    return seen


def test_augmentation_adds_fixed_permutations(store: GraphStore) -> None:
    plain, augmented = make_data(store), make_data(store, permutations=4)
    assert augmented.train_items == 5 * plain.train_items
    first = copies(augmented, 0)
    assert first == copies(augmented, 7)
    originals = copies(plain, 0)
    assert all(originals[graph] <= orders for graph, orders in first.items())
    assert np.mean([len(orders) for orders in first.values()]) > 4.5  # small graphs may repeat an order


def test_fresh_permutations_differ_between_epochs_and_keep_the_original(store: GraphStore) -> None:
    data = make_data(store, permutations=2, fresh_permutations=True)
    first, second = copies(data, 0), copies(data, 1)
    assert first != second
    assert all(first[graph] & second[graph] for graph in first)
    assert first == copies(make_data(store, permutations=2, fresh_permutations=True), 0)


def test_the_permuted_holdout_is_the_holdout_renumbered(store: GraphStore) -> None:
    data = make_data(store)
    train, holdout, permuted = (next(iter(loader)) for loader in data.val_dataloader())
    assert len(train.y) == 80 and torch.equal(holdout.y, permuted.y) and torch.equal(holdout.ptr, permuted.ptr)
    assert not torch.equal(holdout.x, permuted.x)
    torch.testing.assert_close(holdout.x.sum(0), permuted.x.sum(0), atol=1e-3, rtol=0)
    data.last_epoch = 5
    assert not torch.equal(permuted.x, next(iter(data.val_dataloader()[2])).x)


def test_evaluation_keeps_the_order_and_covers_the_split(store: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permlab.tasks.data.EVALUATION_BATCH", 7)
    data = make_data(store)
    loader = EvaluationLoader(data, "holdout")
    assert torch.cat([batch.y for batch in loader]).tolist() == store.y[data.split.holdout].tolist()
    assert len(loader) == len(list(loader)) == 3
