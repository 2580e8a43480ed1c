import numpy as np
import pytest

from permlab.readouts.loops.columns import few_columns


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("d", [1, 16, 50, 131])
def test_rows_with_a_few(count: int, d: int) -> None:
    """What lies around the rows, no numbers, is not read, and a row's products do not depend on the others."""
    generator = np.random.default_rng(d)
    x, y = (np.full((rows, d + 3), np.nan, dtype=np.float32) for rows in (41, count))
    x[:, :d], y[:, :d] = generator.normal(size=(41, d)), generator.normal(size=(count, d))
    exact = x[:, :d].astype(float) @ y[:, :d].T
    for n in (0, 1, 7, 41):
        found = np.full((n + 1, count), 7, dtype=np.float32)
        few_columns(x.ctypes.data, d + 3, n, d, y.ctypes.data, d + 3, count, found.ctypes.data)
        np.testing.assert_allclose(found[:n], exact[:n], rtol=1e-4, atol=1e-4)
        assert (found[n:] == 7).all()
    for i in range(41):
        alone = np.empty((1, count), dtype=np.float32)
        few_columns(x[i].ctypes.data, d + 3, 1, d, y.ctypes.data, d + 3, count, alone.ctypes.data)
        np.testing.assert_array_equal(alone[0], found[i])
