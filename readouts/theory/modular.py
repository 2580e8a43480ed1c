"""Arithmetic modulo the prime P = 2⁶¹ − 1 on arrays of unsigned 64-bit integers below P."""

import numpy as np

P = 2**61 - 1


def residues(integers: np.ndarray) -> np.ndarray:
    """Integers of either sign, below 2⁶³, modulo P."""
    return (integers.astype(np.int64) % P).astype(np.uint64)


def times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a · b modulo P: products of halves of 30 and 31 bits fit in 64 bits, and 2⁶¹ is 1."""
    high_a, low_a, high_b, low_b = a >> 31, a & 0x7FFFFFFF, b >> 31, b & 0x7FFFFFFF
    middle = high_a * low_b + low_a * high_b
    return _reduced(2 * (high_a * high_b) + (middle >> 30) + ((middle & 0x3FFFFFFF) << 31) + low_a * low_b)


def minus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _reduced(a + (P - b))


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The matrix product of a [..., i, j] and b [j, k] modulo P."""
    total = times(a[..., :1], b[0])
    for j in range(1, len(b)):
        total = _reduced(total + times(a[..., j : j + 1], b[j]))
    return total


def _reduced(a: np.ndarray) -> np.ndarray:
    folded = (a & P) + (a >> 61)
    return np.where(folded >= P, folded - P, folded)


def rank(matrices: np.ndarray) -> np.ndarray:
    """The ranks of matrices [count, rows, columns] over the field of P elements, [count]."""
    left = matrices.copy()
    count, rows, columns = left.shape
    ranks, each = np.zeros(count, dtype=np.int64), np.arange(count)
    for column in range(columns):
        used = np.arange(rows) < ranks[:, None]
        usable = (left[:, :, column] != 0) & ~used
        place, has_pivot = usable.argmax(axis=1), usable.any(axis=1)
        top = np.minimum(ranks, rows - 1)
        pivot = left[each, place]
        left[each[has_pivot], place[has_pivot]] = left[each[has_pivot], top[has_pivot]]
        left[each[has_pivot], top[has_pivot]] = pivot[has_pivot]
        below = (np.arange(rows) > top[:, None]) & has_pivot[:, None]
        factor = left[:, :, column, None]
        reduced = minus(times(left, pivot[:, column, None, None]), times(factor, pivot[:, None]))
        left = np.where(below[:, :, None], reduced, left)
        ranks += has_pivot
    return ranks
