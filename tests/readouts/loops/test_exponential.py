import numpy as np
import pytest

from permlab.readouts.loops.exponential import exp_sums, softmax


@pytest.mark.parametrize("q", [1, 4, 16, 50, 100, 200])
def test_exponentials_and_their_sums_are_numpys(q: int) -> None:
    rng, ptr = np.random.default_rng(q), np.array([0, 3, 3, 40])
    z, bias = rng.uniform(-30, 3, (40, q)).astype(np.float32), rng.standard_normal(q).astype(np.float32)
    factor, minus = rng.uniform(0.5, 2, 40).astype(np.float32), rng.uniform(0, 2, 40).astype(np.float32)
    expected = np.exp(np.minimum(z * factor[:, None].astype(np.float64) + bias - minus[:, None], 0))
    out = np.empty((3, q), dtype=np.float32)
    exp_sums(z, ptr, factor, minus, bias, out)
    np.testing.assert_allclose(z, expected, rtol=1e-5)  # what the rounding of an exponent of 60 leaves
    np.testing.assert_allclose(out, [expected[a:b].sum(0) for a, b in ((0, 3), (3, 3), (3, 40))], rtol=1e-5)


def test_the_ends_of_the_range() -> None:
    z = np.array([[0, -1e-7, -87, -1e4, -np.inf, np.nan, 9, -0.5]], dtype=np.float32)
    one, none, zeros = np.ones(1, dtype=np.float32), np.zeros(1, dtype=np.float32), np.zeros(8, dtype=np.float32)
    out = np.empty((1, 8), dtype=np.float32)
    exp_sums(z, np.array([0, 1]), one, none, zeros, out)
    assert z[0, 0] == 1 and z[0, 6] == 1 and np.isnan(z[0, 5])
    assert (z[0, 2:5] < 2e-38).all()
    np.testing.assert_allclose(z[0, [1, 7]], np.exp([-1e-7, -0.5]), rtol=2e-7)


@pytest.mark.parametrize("m", [0, 1, 3, 16, 39, 620])
def test_softmax_is_the_formula(m: int) -> None:
    x = np.random.default_rng(m).standard_normal(m).astype(np.float32) * 10
    exact = np.exp(x.astype(np.float64) - x.max(initial=-np.inf))
    softmax(x)
    np.testing.assert_allclose(x, exact / exact.sum(), rtol=1e-5, atol=1e-37)
