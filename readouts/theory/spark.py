"""Full spark keys: any d columns of A [d, D] are independent. All C(D, d) minors are computed, so D must be small."""

from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np

from permlab.readouts.checks import check_key
from permlab.readouts.errors import ReadoutError

MAX_MINORS = 2_000_000


def smallest_minor(A: Any) -> float:
    """min over J ⊂ [D], |J| = d, of s_d(A[J])."""
    key = check_key(A).numpy()
    return smallest_value(key, len(key))


def smallest_value(key: np.ndarray, columns: int) -> float:
    """min over J ⊂ [D], |J| = columns ≥ d, of the smallest singular value of A[J]."""
    d, D = key.shape
    if comb(D, columns) > MAX_MINORS:
        raise ReadoutError(f"a {d} × {D} key has {comb(D, columns):,} minors; the limit is {MAX_MINORS:,}")
    subsets = combinations(range(D), columns)
    smallest = np.inf
    while block := list(islice(subsets, 10_000)):
        submatrices = key[:, np.array(block)].transpose(1, 0, 2)  # [block, d, columns]
        smallest = min(smallest, np.linalg.svd(submatrices, compute_uv=False)[:, -1].min())
    return float(smallest)


def is_full_spark(A: Any) -> bool:
    """Are any d columns of A [d, D] independent? Columns are scaled to unit length first."""
    key = check_key(A)
    norms = key.norm(dim=0)
    return bool((norms > 0).all()) and smallest_minor(key / norms) > 1e-12


def enough_columns(A: Any, n: int) -> bool:
    """Is A full spark with D ≥ n(d−1) + 1, and so universal for n rows, whatever n is?

    If β_A(X) = β_A(Y), each of the D columns matches row x₁ with one of the n rows of Y; some row of Y is matched d
    times and agrees with x₁ in d independent columns, so they are equal. Remove both and repeat.
    """
    key = check_key(A)
    d, D = key.shape
    return n * (d - 1) + 1 <= D and comb(D, d) <= MAX_MINORS and is_full_spark(key)
