"""Rows in lexicographic order within every graph, compiled: a merge sort that looks at one column unless it ties."""

import numpy as np

from permlab.tasks.engine.compiled import compiled

_RUN = 16  # rows that are sorted by insertion


@compiled
def _before(x: np.ndarray, a: int, b: int) -> bool:
    """Whether row a stands before row b: by the last column descending, ties by the column before it, and so on."""
    for column in range(x.shape[1] - 1, -1, -1):
        if x[a, column] != x[b, column]:
            return x[a, column] > x[b, column]
    return False


@compiled
def _by_rows(x: np.ndarray, start: int, stop: int, order: np.ndarray, spare: np.ndarray) -> None:
    """Sorts order[start:stop], rows of x, by comparing whole rows where they tie."""
    for first in range(start, stop, _RUN):
        for i in range(first + 1, min(first + _RUN, stop)):
            row, place = order[i], i
            while place > first and _before(x, row, order[place - 1]):
                order[place] = order[place - 1]
                place -= 1
            order[place] = row
    width = _RUN
    while width < stop - start:
        for first in range(start, stop, 2 * width):
            middle, last = min(first + width, stop), min(first + 2 * width, stop)
            left, right = first, middle
            for place in range(first, last):
                if left < middle and (right == last or not _before(x, order[right], order[left])):
                    spare[place] = order[left]
                    left += 1
                else:
                    spare[place] = order[right]
                    right += 1
        order[start:stop] = spare[start:stop]
        width *= 2


@compiled
def lexicographic(x: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """x [n, d], ptr [B + 1] → order [n]; rows that are equal keep theirs."""
    order, spare = np.arange(len(x)), np.empty(len(x), dtype=np.int64)
    for graph in range(len(ptr) - 1):
        _by_rows(x, ptr[graph], ptr[graph + 1], order, spare)
    return order


@compiled
def _by_keys(keys: np.ndarray, spare: np.ndarray) -> None:
    """Sorts integers, ascending."""
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
        for place in range(m):
            keys[place] = spare[place]
        width *= 2


@compiled
def lexicographic_keys(x: np.ndarray, bits: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """`lexicographic` for floats whose bits [n, d] are given: the last column as integers, with the rows below.

    Those that tie are sorted by comparing rows.
    """
    last, n = x.shape[1] - 1, len(x)
    order, spare, keys = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    for graph in range(len(ptr) - 1):
        start, stop = ptr[graph], ptr[graph + 1]
        for row in range(start, stop):
            value = np.int64(bits[row, last]) if x[row, last] != 0 else np.int64(0)  # −0 is 0
            turned = value ^ (value >> 31 & 0x7FFFFFFF)  # ascends as the float does
            keys[row] = ~turned << 32 | row
        _by_keys(keys[start:stop], spare[start:stop])
        for row in range(start, stop):
            order[row] = keys[row] & 0xFFFFFFFF
        first = start  # of those that tie with the one looked at
        for row in range(start + 1, stop + 1):
            if row == stop or keys[row] >> 32 != keys[first] >> 32:
                if row - first > 1 and last:
                    _by_rows(x, first, row, order, spare)
                first = row
    return order
