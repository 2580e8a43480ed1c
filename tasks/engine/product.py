"""One call of BLAS for matrices whose rows may be parts of longer rows, which `np.dot` would copy, and which may add to
what is there. The only file that passes addresses.
"""

import numpy as np
from numba import types
from numba.np.linalg import _BLAS  # private (0.68): the gemm behind `np.dot`

from permlab.tasks.engine.compiled import compiled

_gemm = _BLAS().numba_xxgemm(types.float32)
_SINGLE, _PLAIN, _TRANSPOSED = ord("s"), ord("n"), ord("t")
_FACTORS = np.array([0], dtype=np.float32), np.array([1], dtype=np.float32)
_ZERO, _ONE = _FACTORS


@compiled
def _has_rows(matrix: np.ndarray) -> bool:
    """Whether the rows are contiguous, and each begins after the one before has ended."""
    (m, n), (down, right) = matrix.shape, matrix.strides
    return (n < 2 or right == 4) and (m < 2 or down >= 4 * n)


@compiled
def _stride(matrix: np.ndarray) -> int:
    return max(matrix.strides[0] // 4, matrix.shape[1], 1)


@compiled
def product(a: np.ndarray, b: np.ndarray, out: np.ndarray, transpose_a: bool, transpose_b: bool, add: bool) -> None:
    """out ← A B, or out + A B, where A is a or aᵀ, B is b or bᵀ: [m, k] × [k, n] → [m, n], float32, rows contiguous."""
    if not (_has_rows(a) and _has_rows(b) and _has_rows(out)):
        raise ValueError("matrices without contiguous rows, one after the other")
    (m, n), k = out.shape, a.shape[0] if transpose_a else a.shape[1]
    if (b.shape[1] if transpose_b else b.shape[0]) != k or (a.shape[1] if transpose_a else a.shape[0]) != m:
        raise ValueError("matrices that do not fit")
    if (b.shape[0] if transpose_b else b.shape[1]) != n:
        raise ValueError("matrices that do not fit")
    if m and n:  # BLAS is column-major: outᵀ = Bᵀ Aᵀ
        _gemm(
            _SINGLE,
            _TRANSPOSED if transpose_b else _PLAIN,
            _TRANSPOSED if transpose_a else _PLAIN,
            n,
            m,
            k,
            _ONE.ctypes,
            b.ctypes,
            _stride(b),
            a.ctypes,
            _stride(a),
            _ONE.ctypes if add else _ZERO.ctypes,
            out.ctypes,
            _stride(out),
        )
