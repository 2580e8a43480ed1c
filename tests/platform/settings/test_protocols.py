"""What a protocol fills in, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest

from permlab.datasets.errors import DataUsageError
from permlab.datasets.folds import published_split, read_folds
from permlab.platform.errors import ConfigError
from permlab.platform.settings.run import RunSettings, cell_key
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import read_settings


def read(*words: str) -> SweepSettings:
    return read_settings(SweepSettings, words)


def test_nested_cross_validation_has_ten_folds_three_runs_and_a_search() -> None:
    sweep = read("protocol=errica", "train.epochs=40")
    assert (sweep.data.splits, sweep.data.validation, sweep.data.test) == ("stratified:10", 0.1, True)
    assert (sweep.seed, sweep.train.patience, len(sweep.cells())) == ([0, 1, 2], 40, 30)
    assert sweep.tune and sweep.tune.trials == 20 and not sweep.tune.baseline
    given = read("protocol=errica", "seed=[7]", "train.patience=9", "tune.trials=3", "data.splits=stratified:5")
    assert (given.seed, given.train.patience, len(given.cells())) == ([7], 9, 5)
    assert given.tune and given.tune.trials == 3
    assert read("protocol=errica", "tuned=before").tune is None


def test_ogb_has_one_split_and_ten_seeds() -> None:
    sweep = read("protocol=ogb", "train.epochs=40")
    assert (sweep.data.splits, sweep.data.holdout, sweep.data.validation, sweep.data.test) == (
        "scaffold",
        0.1,
        0.1,
        True,
    )
    assert (sweep.seed, sweep.train.patience, sweep.tune) == (list(range(10)), 40, None)
    assert (
        len(
            read("protocol=ogb", "seed=[0,1,2]", "data.splits=stratified:9", "data.fold=2", "data.validation=9").cells()
        )
        == 3
    )


def test_the_fair_comparison_has_the_published_folds(mirror: Path) -> None:
    sweep = read("fair-comparison")
    assert (sweep.protocol, len(sweep.cells())) == ("errica", 5 * 10 * 3)
    assert Path(sweep.data.splits or "") == (mirror / "splits" / "PROTEINS_full_errica.json").resolve()
    folds = read_folds(sweep.data.splits or "")
    assert {len(fold.test) for fold in folds} == {111, 112}
    assert all(whole_split(sweep.data.splits or "", fold) == list(range(1113)) for fold in range(10))


def whole_split(path: str, fold: int) -> list[int]:
    return sorted(np.concatenate(published_split(path, fold, 0, 1113)).tolist())


def test_settings_are_the_same_when_they_are_read_again() -> None:
    for protocol in ("errica", "ogb", "paper"):
        sweep = read(f"protocol={protocol}")
        assert read_settings(SweepSettings, [sweep]) == sweep


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["protocol=nested"], "protocol=nested: input should be 'paper', 'errica' or 'ogb'"),
        (["protocol=errica", "data.splits=scaffold"], "protocol=errica needs folds"),
        (["protocol=errica", "data.test=false"], "protocol=errica measures the test folds"),
        (["protocol=errica", "data.validation=0", "data.test=false"], "protocol=errica needs a validation part"),
        (["protocol=errica", "data.fold=[]"], "data.fold has no values"),
        (["protocol=errica", "data.fold=[0,-1]"], "data.fold"),
        (["protocol=errica", "data.splits=nowhere.json"], "there is no file .*nowhere.json"),
        (
            ["protocol=ogb", "data.splits=stratified:5", "data.validation=9"],
            "protocol=ogb has one fixed split.*data.fold",
        ),
        (["protocol=ogb", "data.splits=stratified:5", "data.validation=9", "data.fold=[0,1]"], "one value"),
        (["protocol=ogb", "data.validation=0", "data.test=false"], "needs a validation part"),
    ],
)
def test_what_breaks_a_protocol_is_one_line(words: list[str], says: str) -> None:
    with pytest.raises((ConfigError, DataUsageError), match=says) as caught:
        read(*words)
    assert "\n" not in str(caught.value)


def test_the_keys_of_runs_without_folds_are_as_before() -> None:
    assert cell_key(RunSettings(), "digest") == "a4768fa4c765db3a3dda23a809876e2e"
