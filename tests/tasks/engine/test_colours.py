"""Colours against their definition, by dictionaries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permlab.datasets.chunk import pointer
from permlab.tasks.engine import colours


def refined(az, node_ptr, a_ptr, a_column, a_value) -> tuple[list, list]:
    """The rows of Â·Z, and the multisets of their neighbours, themselves as colours."""
    first = [tuple(row) for row in az.tolist()]
    start = np.repeat(node_ptr[:-1], np.diff(node_ptr))
    second = []
    for i in range(len(az)):
        entries = range(a_ptr[i], a_ptr[i + 1])
        second.append(tuple(sorted((first[start[i] + a_column[j]], a_value[j]) for j in entries)))
    return first, second


def partition(names: list) -> list[int]:
    """Each name as the place where it first occurs."""
    return [names.index(name) for name in names]


@given(st.data(), st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_colours_are_the_first_two_rounds_of_refinement(data, sizes: list[int]) -> None:
    node_ptr, n = pointer(np.array(sizes)), sum(sizes)
    az = np.array(data.draw(st.lists(st.tuples(*[st.sampled_from([0.0, 1.0])] * 2), min_size=n, max_size=n)))
    az = az.reshape(n, 2).astype(np.float32)
    rows = [
        data.draw(st.lists(st.tuples(st.integers(0, size - 1), st.sampled_from([0.5, 0.25])), max_size=3))
        for size in sizes
        for _ in range(size)
    ]
    a_ptr = pointer(np.array([len(row) for row in rows], dtype=np.int64))
    a_column = np.array([column for row in rows for column, _ in row], dtype=np.int32)
    a_value = np.array([value for row in rows for _, value in row], dtype=np.float32)
    arrays = (az, node_ptr, a_ptr, a_column, a_value)
    first, second = refined(*arrays)
    found = colours.colours_of(np.arange(len(sizes)), *arrays)
    if not n or len(set(second)) > colours.SHARE * n:
        assert found is None
        return
    assert partition(found.first.tolist()) == partition(first)
    assert partition(found.second.tolist()) == partition(second)
    np.testing.assert_array_equal(found.x[found.first], az)


def test_features_that_are_all_different_have_no_colours() -> None:
    az = np.arange(colours.MOST + 1, dtype=np.float32)[:, None]
    one = np.arange(len(az) + 1)
    column, value = np.zeros(len(az), dtype=np.int32), np.ones(len(az), dtype=np.float32)
    everything = np.arange(len(az))
    assert colours.colours_of(everything, az, one, one, column, value) is None
    assert colours.colours_of(everything, np.zeros_like(az), one, one, column, value) is not None


def test_graphs_that_are_not_named_have_no_part_in_it() -> None:
    az = np.arange(40, dtype=np.float32)[:, None] // 8
    one = np.arange(len(az) + 1)
    column, value = np.zeros(len(az), dtype=np.int32), np.ones(len(az), dtype=np.float32)
    named = np.arange(16)
    before = colours.colours_of(named, az, one, one, column, value)
    az[16:], value[16:], column[16:] = np.nan, np.nan, 7
    after = colours.colours_of(named, az, one, one, column, value)
    assert np.array_equal(before.x, after.x) and len(after.x) == 2
    np.testing.assert_array_equal(before.second, after.second)
    assert (after.second[16:] == -1).all()
    with pytest.raises(ValueError, match="a column outside of its graph"):
        colours.colours_of(np.arange(17), az, one, one, column, value)
