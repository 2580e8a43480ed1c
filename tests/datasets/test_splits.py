import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permlab.datasets.errors import DataUsageError
from permlab.datasets.splits import split


@given(st.integers(0, 2**32 - 1), st.integers(30, 80), st.integers(1, 12), st.integers(0, 8))
def test_parts_are_exact_disjoint_complete_and_keep_groups_whole(
    seed: int, graphs: int, holdout: int, validation: int
) -> None:
    group = np.arange(graphs)
    group[10:20] = group[:10]  # ten pairs
    parts = split(group, holdout, seed, validation)
    assert (len(parts.holdout), len(parts.validation)) == (holdout, validation)
    assert sorted(np.concatenate(parts)) == list(range(graphs))
    owners = [set(group[part].tolist()) for part in parts]
    assert not (owners[0] & owners[1] or owners[0] & owners[2] or owners[1] & owners[2])


def test_the_split_depends_on_the_seed_alone() -> None:
    group = np.arange(1000)
    first, again, other = split(group, 200, 3), split(group, 200, 3), split(group, 200, 4)
    assert (first.holdout == again.holdout).all()
    assert set(first.holdout) != set(other.holdout)


def test_validation_leaves_the_holdout_alone() -> None:
    group = np.arange(1000)
    without, with_validation = split(group, 0.2, 3), split(group, 0.2, 3, validation=0.1)
    assert (without.holdout == with_validation.holdout).all()
    assert set(with_validation.validation) <= set(without.train)
    assert len(with_validation.validation) == 80


def test_every_graph_is_held_out_equally_often() -> None:
    group = np.arange(40)
    group[20:] = group[:20]  # all in pairs
    times = np.zeros(40)
    for seed in range(400):
        times[split(group, 10, seed).holdout] += 1
    assert (np.abs(times / 400 - 0.25) < 0.1).all()


@pytest.mark.parametrize(
    ("holdout", "validation", "message"),
    [
        (50, 0, "holdout=50.*50 graphs.*0 to 49"),
        (-1, 0, "holdout=-1"),
        (1.5, 0, "holdout=1.5.*fraction"),
        (10, 40, "validation=40.*40 graphs"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(holdout: float, validation: int, message: str) -> None:
    with pytest.raises(DataUsageError, match=message):
        split(np.arange(50), holdout, 0, validation)


def test_a_holdout_that_would_split_a_group_is_refused() -> None:
    with pytest.raises(DataUsageError, match="holdout=3.*group"):
        split(np.array([0, 0, 1, 1, 2, 2]), 3, 0)


def test_a_fraction_is_met_as_well_as_groups_allow() -> None:
    group = np.repeat(np.arange(4), 3)  # four molecules, three times each
    assert len(split(group, 0.2, 0).holdout) == 3
    assert len(split(group, 0.5, 0).holdout) == 6


def test_a_holdout_of_one_single_group_is_refused() -> None:
    with pytest.raises(DataUsageError, match="holdout=0.2.*5 graphs"):
        split(np.zeros(5, dtype=int), 0.2, 0)
    assert len(split(np.zeros(5, dtype=int), 0, 0).train) == 5


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(DataUsageError, match="seed=-1"):
        split(np.arange(9), 3, -1)
