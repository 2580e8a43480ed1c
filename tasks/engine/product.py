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
_NONE, _ALL = _FACTORS


@compiled
def _stride(matrix: np.ndarray) -> int:
    return max(matrix.strides[0] // 4, matrix.shape[1], 1)


@compiled
def product(a: np.ndarray, b: np.ndarray, out: np.ndarray, a_turned: bool, b_turned: bool, add: bool) -> None:
    """out ← A B, or out + A B, where A is a or aᵀ, B is b or bᵀ: [m, k] × [k, n] → [m, n], float32, rows contiguous."""
    (m, n), k = out.shape, a.shape[0] if a_turned else a.shape[1]
    if (b.shape[1] if b_turned else b.shape[0]) != k or (a.shape[1] if a_turned else a.shape[0]) != m:
        raise ValueError("matrices that do not fit")
    if (b.shape[0] if b_turned else b.shape[1]) != n:
        raise ValueError("matrices that do not fit")
    if m and n:  # BLAS counts by columns: outᵀ = Bᵀ Aᵀ
        _gemm(
            _SINGLE,
            _TRANSPOSED if b_turned else _PLAIN,
            _TRANSPOSED if a_turned else _PLAIN,
            n,
            m,
            k,
            _ALL.ctypes,
            b.ctypes,
            _stride(b),
            a.ctypes,
            _stride(a),
            _ALL.ctypes if add else _NONE.ctypes,
            out.ctypes,
            _stride(out),
        )
