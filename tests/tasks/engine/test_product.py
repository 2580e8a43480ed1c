"""Products of matrices whose rows are parts of longer rows; other layouts are refused, as BLAS would read elsewhere."""

import numpy as np
import pytest

from permlab.tasks.engine.product import product


def matrices() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    wide = random.standard_normal((3, 4, 9)).astype(np.float32)
    return wide[0, :, 2:6], wide[1, :, :4], wide[2, :, 3:7]


def test_rows_may_be_parts_of_longer_rows() -> None:
    a, b, out = matrices()
    for transpose_a, transpose_b, add in np.ndindex(2, 2, 2):
        expected = (a.T if transpose_a else a) @ (b.T if transpose_b else b) + add * out
        product(a, b, out, bool(transpose_a), bool(transpose_b), bool(add))
        np.testing.assert_allclose(out, expected, rtol=1e-5)


def test_single_rows_and_columns_have_any_stride() -> None:
    a, b, _ = matrices()
    column, row, out = a[:, :1], b[:1], np.empty((4, 4), dtype=np.float32)
    product(column, row, out, False, False, False)
    np.testing.assert_allclose(out, column @ row, rtol=1e-6)
    product(np.broadcast_to(row, (1, 4)), b, out[:1], False, False, False)
    np.testing.assert_allclose(out[:1], row @ b, rtol=1e-5)


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("layout", ["fortran", "backwards", "repeated", "every second column"])
def test_other_layouts_are_refused(which: int, layout: str) -> None:
    three = [np.ones((4, 4), dtype=np.float32) for _ in range(3)]
    base = np.ones((12, 12), dtype=np.float32)
    three[which] = {
        "fortran": np.asfortranarray(base)[4:8, 4:8],
        "backwards": base[8:4:-1, 4:8],
        "repeated": np.lib.stride_tricks.as_strided(base[4:], (4, 4), (0, 4)),
        "every second column": base[4:8, 2:10:2],
    }[layout]
    with pytest.raises(ValueError, match="rows"):
        product(*three, False, False, False)
