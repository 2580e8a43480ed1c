"""The segmented sort in double precision: a merge sort of every column of every graph, stable."""

import numpy as np

from permlab.tasks.engine.compiled import compiled

_RUN = 16  # rows that are sorted by insertion


@compiled
def _sort(values: np.ndarray, rows: np.ndarray, spare: np.ndarray, spare_rows: np.ndarray) -> None:
    """Both [m]: by value, descending; equal values keep their order."""
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
def sort_columns(x: np.ndarray, ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x [n, k], ptr [B + 1] → each column descending within every graph, and the rows it took, int32; both [n, k]."""
    out, rows = np.empty_like(x), np.empty(x.shape, dtype=np.int32)
    largest = 0
    for b in range(len(ptr) - 1):
        largest = max(largest, ptr[b + 1] - ptr[b])
    value, spare = np.empty(largest, dtype=x.dtype), np.empty(largest, dtype=x.dtype)
    row, spare_row = np.empty(largest, dtype=np.int32), np.empty(largest, dtype=np.int32)
    for b in range(len(ptr) - 1):
        start, m = ptr[b], ptr[b + 1] - ptr[b]
        for c in range(x.shape[1]):
            for i in range(m):
                value[i], row[i] = x[start + i, c] + 0.0, start + i  # −0 becomes 0
            _sort(value[:m], row[:m], spare, spare_row)
            for i in range(m):
                out[start + i, c], rows[start + i, c] = value[i], row[i]
    return out, rows
