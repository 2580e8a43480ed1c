"""Merge sorts within every graph: of one column, and of rows in lexicographic order. Stable, descending."""

import numpy as np

from permlab.tasks.engine.compiled import compiled

_RUN = 16  # rows that are sorted by insertion


@compiled
def _by_value(values: np.ndarray, rows: np.ndarray, spare: np.ndarray, spare_rows: np.ndarray) -> None:
    """Sorts both [m] by value; equal values keep their order."""
    m = len(values)
    for first in range(0, m, _RUN):
        for i in range(first + 1, min(first + _RUN, m)):
            value, row, place = values[i], rows[i], i
            while place > first and values[place - 1] < value:
                values[place], rows[place] = values[place - 1], rows[place - 1]
                place -= 1
            values[place], rows[place] = value, row
    width = _RUN
    while width < m:
        for first in range(0, m, 2 * width):
            middle, last = min(first + width, m), min(first + 2 * width, m)
            left, right = first, middle
            for place in range(first, last):
                if left < middle and (right == last or values[left] >= values[right]):
                    spare[place], spare_rows[place] = values[left], rows[left]
                    left += 1
                else:
                    spare[place], spare_rows[place] = values[right], rows[right]
                    right += 1
        values[:] = spare[:m]
        rows[:] = spare_rows[:m]
        width *= 2


@compiled
def _largest(ptr: np.ndarray) -> int:
    largest = 0
    for b in range(len(ptr) - 1):
        largest = max(largest, ptr[b + 1] - ptr[b])
    return largest


@compiled
def sort_column(x: np.ndarray, ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x [n, 1] float32, ptr [B + 1] → x descending within every graph, and the rows it took, int32; both [n, 1]."""
    out, rows, largest = x + np.float32(0), np.empty(x.shape, dtype=np.int32), _largest(ptr)  # −0 becomes 0
    spare, spare_rows = np.empty(largest, dtype=np.float32), np.empty(largest, dtype=np.int32)
    for b in range(len(ptr) - 1):
        for i in range(ptr[b], ptr[b + 1]):
            rows[i, 0] = i
        _by_value(out[ptr[b] : ptr[b + 1], 0], rows[ptr[b] : ptr[b + 1], 0], spare, spare_rows)
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
    """x [n, d], ptr [B + 1] → order [n]; equal rows keep theirs. Rows are compared where the last column ties."""
    n, last, largest = len(x), x.shape[1] - 1, _largest(ptr)
    order, spare_row = np.empty(n, dtype=np.int64), np.empty(largest, dtype=np.int64)
    value, spare = np.empty(largest, dtype=x.dtype), np.empty(largest, dtype=x.dtype)
    for b in range(len(ptr) - 1):
        start, m = ptr[b], ptr[b + 1] - ptr[b]
        for i in range(m):
            value[i], order[start + i] = x[start + i, last], start + i
        _by_value(value[:m], order[start : start + m], spare, spare_row)
        first = 0  # of those that tie with the one looked at
        for i in range(1, m + 1):
            if i == m or value[i] != value[first]:
                if i - first > 1 and last:
                    _by_rows(x, order[start + first : start + i], spare_row)
                first = i
    return order
