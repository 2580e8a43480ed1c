"""Sorts within every graph by merging: of a few columns, and of rows in lexicographic order. Stable, descending."""

import numpy as np

from permlab.tasks.engine.compiled import compiled

_RUN = 16  # up to this many keys are sorted by insertion


@compiled
def _by_key(keys: np.ndarray, spare: np.ndarray) -> None:
    """Sorts keys [m], ascending."""
    m = len(keys)
    for first in range(0, m, _RUN):
        for i in range(first + 1, min(first + _RUN, m)):
            key, place = keys[i], i
            while place > first and keys[place - 1] > key:
                keys[place] = keys[place - 1]
                place -= 1
            keys[place] = key
    width = _RUN
    while width < m:
        for first in range(0, m, 2 * width):
            middle, last = min(first + width, m), min(first + 2 * width, m)
            left, right = first, middle
            for place in range(first, last):
                if left < middle and (right == last or keys[left] <= keys[right]):
                    spare[place] = keys[left]
                    left += 1
                else:
                    spare[place] = keys[right]
                    right += 1
        keys[:] = spare[:m]
        width *= 2


@compiled
def _sorted_keys(column: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """column [n] float32 → for every graph its keys (bits that descend as the float ascends | row), ascending; [n].

    No two keys are equal, so ties keep the order of their rows.
    """
    n = len(column)
    bits, keys, spare = (column + np.float32(0)).view(np.int32), np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):  # −0 became 0
        value = np.int64(bits[i])
        keys[i] = (~(value ^ ((value >> 31) & 0x7FFFFFFF)) << 32) | i
    for b in range(len(ptr) - 1):
        _by_key(keys[ptr[b] : ptr[b + 1]], spare)
    return keys


@compiled
def sort_few_columns(x: np.ndarray, ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x [n, k] float32, ptr [B + 1] → its columns descending within every graph, and the rows, int32; both [n, k]."""
    out, rows = np.empty_like(x), np.empty(x.shape, dtype=np.int32)
    for c in range(x.shape[1]):
        keys = _sorted_keys(x[:, c], ptr)
        for i in range(len(x)):
            row = keys[i] & 0xFFFFFFFF
            out[i, c], rows[i, c] = x[row, c] + np.float32(0), row
    return out, rows


@compiled
def _before(x: np.ndarray, a: int, b: int) -> bool:
    """Whether row a stands before row b: by the last column, ties by the column before it, and so on."""
    for column in range(x.shape[1] - 1, -1, -1):
        if x[a, column] != x[b, column]:
            return x[a, column] > x[b, column]
    return False


@compiled
def _by_rows(x: np.ndarray, order: np.ndarray, spare: np.ndarray) -> None:
    """Sorts `order`, rows of x, by comparing whole rows."""
    m, width = len(order), 1
    while width < m:
        for first in range(0, m, 2 * width):
            middle, last = min(first + width, m), min(first + 2 * width, m)
            left, right = first, middle
            for place in range(first, last):
                if left < middle and (right == last or not _before(x, order[right], order[left])):
                    spare[place] = order[left]
                    left += 1
                else:
                    spare[place] = order[right]
                    right += 1
        order[:] = spare[:m]
        width *= 2


@compiled
def lexicographic(x: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """x [n, d], ptr [B + 1] → order [n]; equal rows keep theirs.

    First by the last column as float32; on ties whole rows are compared.
    """
    n = len(x)
    keys = _sorted_keys(x[:, x.shape[1] - 1].astype(np.float32), ptr)
    order, spare = keys & 0xFFFFFFFF, np.empty(n, dtype=np.int64)
    for b in range(len(ptr) - 1):
        first = ptr[b]  # end of the rows that tie with this one
        for i in range(ptr[b] + 1, ptr[b + 1] + 1):
            if i == ptr[b + 1] or keys[i] >> 32 != keys[first] >> 32:
                if i - first > 1:
                    _by_rows(x, order[first:i], spare)
                first = i
    return order
