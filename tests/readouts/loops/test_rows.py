import numpy as np
import pytest

from permlab.readouts.loops.rows import add_multiples, dots, dots_of_both


@pytest.mark.parametrize("d", [1, 4, 16, 18, 50, 100, 129, 300])
@pytest.mark.parametrize("n", [0, 1, 7])
def test_rows_with_rows(n: int, d: int) -> None:
    generator = np.random.default_rng(d)
    x, y = generator.normal(size=(2, n, d)).astype(np.float32)
    one, factor = generator.normal(size=d).astype(np.float32), generator.normal(size=n).astype(np.float32)
    out, both = np.full((2, n + 1), 7, dtype=np.float32)  # one more than there are
    dots(x.ctypes.data, d, n, one.ctypes.data, out.ctypes.data)
    dots_of_both(x.ctypes.data, d, n, y.ctypes.data, both.ctypes.data)
    np.testing.assert_allclose(out, [*(x.astype(float) @ one), 7], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(both, [*(x.astype(float) * y).sum(1), 7], rtol=1e-4, atol=1e-4)
    expected = y + factor[:, None] * x
    add_multiples(x.ctypes.data, d, n, factor.ctypes.data, y.ctypes.data)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
