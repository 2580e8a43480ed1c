from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory.metric import align, quotient_distance, quotient_distances


def brute_force(x: np.ndarray, y: np.ndarray) -> float:
    return min(float(np.linalg.norm(x - y[list(order)])) for order in permutations(range(len(x))))


def pair(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((n, d))


@settings(max_examples=60)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 10**6))
def test_it_is_the_minimum_over_all_permutations(n: int, d: int, seed: int) -> None:
    x, y = pair(n, d, seed)
    assert quotient_distance(x, y) == pytest.approx(brute_force(x, y), abs=1e-12)


@settings(max_examples=60)
@given(st.integers(1, 8), st.integers(1, 3), st.integers(0, 10**6))
def test_it_is_a_metric_of_the_quotient(n: int, d: int, seed: int) -> None:
    x, y = pair(n, d, seed)
    z, order = pair(n, d, seed + 1)[0], np.random.default_rng(seed).permutation(n)
    assert quotient_distance(x, x[order]) == pytest.approx(0, abs=1e-12)
    assert quotient_distance(x, y) == pytest.approx(quotient_distance(y[order], x), abs=1e-12)
    assert quotient_distance(x, z) <= quotient_distance(x, y) + quotient_distance(y, z) + 1e-12


def test_batches_of_pairs() -> None:
    x, y = torch.randn(2, 20, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    one_by_one = [quotient_distance(a, b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(quotient_distances(x, y), one_by_one)
    np.testing.assert_allclose((x - align(x, y)).flatten(1).norm(dim=1), one_by_one)
    assert quotient_distances(x[:0], y[:0]).shape == (0,)


def test_shapes_must_agree() -> None:
    with pytest.raises(ReadoutError, match=r"\[2, 3\].*\[3, 3\]"):
        quotient_distance(torch.zeros(2, 3), torch.zeros(3, 3))
    with pytest.raises(ReadoutError, match=r"X has shape \[2, 3\]"):
        align(torch.zeros(2, 3), torch.zeros(2, 3))
