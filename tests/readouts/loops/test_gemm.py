"""The compiled products against NumPy's in double precision: every shape of tile, whatever lies around the matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permlab.readouts.loops.gemm import outer, times

sizes = st.sampled_from([1, 2, 3, 4, 5, 7, 12, 15, 16, 17, 29, 31, 47, 48, 50, 52, 53, 63, 64, 65, 100, 131, 150])


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def guarded(shape: tuple[int, int], spare: int) -> np.ndarray:
    """Room for a matrix inside a larger one of sevens."""
    return np.full((shape[0], shape[1] + spare), 7, dtype=np.float32)


@given(
    n=sizes | st.sampled_from([0, 300]),
    p=sizes,
    q=sizes,
    spare=st.integers(0, 3),
    turned=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_product_is_numpys(n: int, p: int, q: int, spare: int, turned: bool, seed: int) -> None:
    a, b, bias, gate = (
        drawn(seed, n, p + spare),
        drawn(seed + 1, p, q),
        drawn(seed + 2, q),
        drawn(seed + 3, n, q + spare),
    )
    stored = np.ascontiguousarray(b.T) if turned else b
    strides = (1, p) if turned else (q, 1)
    exact = a[:, :p].astype(np.float64) @ b

    def found(bias_at: int, relu: int, gate_at: int, out: np.ndarray, more: int = 0) -> np.ndarray:
        left = (a.ctypes.data, p + spare, n, p, stored.ctypes.data, *strides)
        times(*left, bias_at, q, relu, gate_at, more, out.ctypes.data, q + spare)
        np.testing.assert_array_equal(out[:, q:], 7)  # nothing is written beside it
        return out[:, :q]

    close = {"rtol": 1e-5, "atol": 1e-5 * p**0.5}
    out = guarded((n, q), spare)
    np.testing.assert_allclose(found(0, 0, 0, out), exact, **close)
    np.testing.assert_allclose(found(0, 0, 0, out, more=1), 2 * exact, **close)
    np.testing.assert_allclose(found(bias.ctypes.data, 0, 0, out), exact + bias, **close)
    np.testing.assert_allclose(found(bias.ctypes.data, 1, 0, out), np.maximum(exact + bias, 0), **close)
    shut = np.where(gate[:, :q] > 0, exact, 0)
    np.testing.assert_allclose(found(0, 0, gate.ctypes.data, out), shut, **close)


@given(n=sizes | st.just(0), p=sizes, q=sizes, spare=st.integers(0, 3), seed=st.integers(0, 99))
def test_outer_products_are_numpys(n: int, p: int, q: int, spare: int, seed: int) -> None:
    a, g, out = drawn(seed, n, p), drawn(seed + 1, n, q), guarded((p, q), spare)
    outer(a.ctypes.data, n, p, g.ctypes.data, q, out.ctypes.data, q + spare)
    np.testing.assert_allclose(out[:, :q], a.T.astype(np.float64) @ g, rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(out[:, q:], 7)


@pytest.mark.parametrize("q", [1, 10, 50, 100])
def test_a_row_of_a_product_does_not_depend_on_the_others(q: int) -> None:
    a, b = drawn(0, 41, 50), drawn(1, 50, q)
    whole, alone = np.empty((41, q), dtype=np.float32), np.empty((1, q), dtype=np.float32)
    times(a.ctypes.data, 50, 41, 50, b.ctypes.data, q, 1, 0, q, 0, 0, 0, whole.ctypes.data, q)
    for i in range(41):
        times(a[i].ctypes.data, 50, 1, 50, b.ctypes.data, q, 1, 0, q, 0, 0, 0, alone.ctypes.data, q)
        np.testing.assert_array_equal(whole[i], alone[0])


def test_what_is_no_number_is_not_hidden() -> None:
    a, b, out = np.full((6, 2), np.nan, dtype=np.float32), drawn(0, 2, 5), np.empty((6, 5), dtype=np.float32)
    times(a.ctypes.data, 2, 6, 2, b.ctypes.data, 5, 1, 0, 5, 1, 0, 0, out.ctypes.data, 5)
    assert np.isnan(out).all()
