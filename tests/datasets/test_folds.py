"""Published folds, scaffold splits and stratified folds."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permlab.datasets.errors import DataUsageError
from permlab.datasets.folds import published_split, read_folds, receive, scaffold_split, stratified_split
from permlab.datasets.splits import Split

FOLDS = [
    {
        "test": [0, 1],
        "model_selection": [{"train": [5, 2, 3], "validation": [4]}, {"train": [4, 5], "validation": [2, 3]}],
    },
    {"test": [5], "model_selection": [{"train": [0, 1, 2, 3], "validation": [4]}]},
]


def written(folder: Path, folds: Any = FOLDS) -> str:
    path = folder / "folds.json"
    path.write_text(folds if isinstance(folds, str) else json.dumps(folds))
    return str(path)


def lists(split: Split) -> list[list[int]]:
    return [part.tolist() for part in split]


def whole(split: Split, graphs: int) -> bool:
    return sorted(np.concatenate(split).tolist()) == list(range(graphs))


def test_a_published_fold_is_as_its_file_says(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert len(read_folds(path)) == 2
    assert lists(published_split(path, 0, 0, 6)) == [[2, 3, 5], [4], [0, 1]]
    assert lists(published_split(path, 0, 1, 6)) == lists(published_split(path, 0, 7, 6)) == [[4, 5], [2, 3], [0, 1]]
    assert lists(published_split(path, 1, 7, 6)) == [[0, 1, 2, 3], [4], [5]]


def test_a_file_that_came_with_a_task_is_read_as_it_was_sent(tmp_path: Path) -> None:
    path = str(tmp_path / "elsewhere.json")
    receive(path, json.dumps(FOLDS[:1]).encode())
    assert len(read_folds(path)) == 1


def changed(fold: int, part: str, values: list[int]) -> list[Any]:
    folds = json.loads(json.dumps(FOLDS))
    (folds[fold] if part == "test" else folds[fold]["model_selection"][0])[part] = values
    return folds


@pytest.mark.parametrize(
    ("folds", "fold", "says"),
    [
        (changed(0, "validation", [4, 1]), 0, "fold 0 has overlapping parts: graph 1 is in validation and test"),
        (changed(0, "test", [0, 0, 1]), 0, "fold 0 has overlapping parts: graph 0 is in test twice"),
        (changed(1, "train", [0, 1, 3]), 1, r"fold 1 leaves out graph 2 \(1 such graph of 6\)"),
        (changed(1, "test", [5, 6]), 1, "fold 1 names graph 6; the data set has 6, 0 to 5"),
        (changed(1, "test", [5, -1]), 1, "fold 1 names graph -1"),
        (FOLDS, 2, "data.fold=2: .* has 2 folds, 0 to 1"),
        (changed(1, "test", []), 1, "does not hold folds: a list of"),
        (changed(1, "test", [5.5]), 1, "does not hold folds"),  # type: ignore[list-item]
        ({"test": []}, 0, "does not hold folds"),
        ([{"test": [1], "model_selection": []}], 0, "does not hold folds"),
        ("[" * 100_000, 0, "does not hold folds"),
        ("not JSON", 0, "does not hold folds"),
    ],
)
def test_wrong_folds_are_one_line(tmp_path: Path, folds: Any, fold: int, says: str) -> None:
    with pytest.raises(DataUsageError, match=says) as caught:
        published_split(written(tmp_path, folds), fold, 0, 6)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "nowhere.json")
    with pytest.raises(DataUsageError, match=f"there is no file {re.escape(path)}"):
        read_folds(path)


def test_scaffolds_go_by_size_the_largest_to_train() -> None:
    """A (4), B (3), C (2), D (1): as OGB's and DeepChem's code does it, by hand."""
    scaffolds = ["D", "C", "A", "B", "A", "A", "B", "C", "A", "B"]
    assert lists(scaffold_split(scaffolds, 0.1, 0.2)) == [[2, 3, 4, 5, 6, 8, 9], [1, 7], [0]]
    assert lists(scaffold_split(scaffolds, 4, 1)) == [[0, 2, 4, 5, 8], [1, 7], [3, 6, 9]]


def test_of_equally_large_scaffolds_the_one_that_comes_last_is_taken_first() -> None:
    assert lists(scaffold_split(["A", "B", "C"], 1, 1)) == [[2], [1], [0]]


@given(st.lists(st.sampled_from("ABCDEFGH"), min_size=12), st.floats(0, 0.4), st.floats(0, 0.4))
def test_a_scaffold_is_on_one_side(scaffolds: list[str], holdout: float, validation: float) -> None:
    try:
        split = scaffold_split(scaffolds, holdout, validation)
    except DataUsageError:
        return
    owners = [{scaffolds[graph] for graph in part} for part in split]
    assert whole(split, len(scaffolds)) and sum(map(len, owners)) == len(set(scaffolds))
    assert len(split.train) <= len(scaffolds) - round(holdout * len(scaffolds)) - round(validation * len(scaffolds))


def test_one_scaffold_cannot_be_split() -> None:
    with pytest.raises(DataUsageError, match="no scaffold has few enough molecules"):
        scaffold_split(["A"] * 9, 0.1, 0.1)


@given(st.data(), st.integers(2, 6), st.integers(0, 2**40), st.integers(0, 9))
def test_stratified_folds_share_the_graphs_and_each_class_evenly(
    data: st.DataObject, folds: int, seed: int, validation: int
) -> None:
    y = np.array(data.draw(st.lists(st.integers(0, 2), min_size=24, max_size=60)), dtype=np.float32)
    graphs = len(y)
    splits = [stratified_split(np.arange(graphs), y, folds, fold, validation, seed, seed + 1) for fold in range(folds)]
    assert sorted(np.concatenate([split.holdout for split in splits]).tolist()) == list(range(graphs))
    for split in splits:
        assert whole(split, graphs) and len(split.validation) == validation
        assert abs(len(split.holdout) - graphs / folds) < 1
        rest = np.concatenate([split.train, split.validation])
        for c in range(3):
            assert abs((y[split.holdout] == c).sum() - (y == c).sum() / folds) < 1
            assert abs((y[split.validation] == c).sum() - validation * (y[rest] == c).sum() / len(rest)) < 2


def test_the_seed_of_the_validation_part_leaves_the_folds_alone() -> None:
    y = np.random.default_rng(0).normal(size=(90, 2))
    y[::7, 0] = np.nan
    first, second = (stratified_split(np.arange(90), y, 5, 2, 0.25, 3, seed) for seed in (0, 1))
    assert first.holdout.tolist() == second.holdout.tolist() and len(first.validation) == 18
    assert first.validation.tolist() != second.validation.tolist()
    assert stratified_split(np.arange(90), y, 5, 2, 0, 4, 0).holdout.tolist() != first.holdout.tolist()


def test_equal_graphs_are_in_one_fold() -> None:
    group = np.repeat(np.arange(20), 3)
    y = (group % 2).astype(np.float32)
    for fold in range(5):
        split = stratified_split(group, y, 5, fold, 0.25, 0, 0)
        owners = [set(group[part].tolist()) for part in split]
        assert whole(split, 60) and sum(map(len, owners)) == 20
        assert (y[split.holdout] == 1).sum() == len(split.holdout) / 2


def test_folds_that_do_not_exist_are_refused() -> None:
    y = np.zeros(5)
    with pytest.raises(DataUsageError, match="data.fold=3: there are 3 folds, 0 to 2"):
        stratified_split(np.arange(5), y, 3, 3, 0, 0, 0)
    with pytest.raises(DataUsageError, match="stratified:6 asks for 6 folds of 5 different graphs"):
        stratified_split(np.arange(5), y, 6, 0, 0, 0, 0)
