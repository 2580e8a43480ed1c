"""Weighted sums of rows against a loop in double precision."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from permlab.readouts.loops.bags import bags, sum_rows


def address(array: np.ndarray | None) -> int:
    return 0 if array is None else array.ctypes.data


@given(
    counts=st.lists(st.integers(0, 6), min_size=1, max_size=12),
    q=st.sampled_from([1, 3, 4, 5, 16, 20, 50, 64, 100, 128, 131, 300]),
    indexed=st.booleans(),
    weighted=st.booleans(),
    biased=st.booleans(),
    gated=st.booleans(),
    relu=st.booleans(),
    seed=st.integers(0, 99),
)
def test_sums_are_those_of_a_loop(
    counts: list[int], q: int, indexed: bool, weighted: bool, biased: bool, gated: bool, relu: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    ptr = np.cumsum([0, *counts]).astype(np.int32)
    n = max(int(ptr[-1]), 1)
    x = rng.standard_normal((n, q)).astype(np.float32)
    column = rng.integers(0, n, n).astype(np.int32)
    value, bias = rng.standard_normal(n).astype(np.float32), rng.standard_normal(q).astype(np.float32)
    gate, out = rng.standard_normal((len(counts), q)).astype(np.float32), np.empty((len(counts), q), dtype=np.float32)
    bags(
        address(x),
        q,
        address(ptr),
        len(counts),
        address(column if indexed else None),
        address(value if weighted else None),
        address(bias if biased else None),
        int(relu),
        address(gate if gated else None),
        address(out),
    )
    rows = x.astype(np.float64)[column if indexed else np.arange(n)] * (value[:, None] if weighted else 1)
    expected = np.array([rows[a:b].sum(0) for a, b in pairwise(ptr)]) + (bias if biased else 0)
    expected = np.maximum(expected, 0) if relu else expected
    expected = np.where(gate > 0, expected, 0) if gated else expected
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_one_sum_over_rows_as_they_come() -> None:
    x, weights = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([1, 10, 100], dtype=np.float32)
    out = np.empty(2, dtype=np.float32)
    sum_rows(address(x), 2, 3, address(weights), address(out))
    np.testing.assert_array_equal(out, [420, 531])
