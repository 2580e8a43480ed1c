"""Rows in lexicographic order within every graph, compiled: a merge sort that looks at one column unless it ties."""

import numpy as np

from permlab.readouts.compiled import compiled

_RUN = 16  # rows that are sorted by insertion


@compiled
def _before(x: np.ndarray, a: int, b: int) -> bool:
    """Whether row a stands before row b: by the last column descending, ties by the column before it, and so on."""
    for column in range(x.shape[1] - 1, -1, -1):
        if x[a, column] != x[b, column]:
            return x[a, column] > x[b, column]
    return False


@compiled
def lexicographic(x: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """x [n, d], ptr [B + 1] → order [n]; rows that are equal keep theirs."""
    order, spare = np.arange(len(x)), np.empty(len(x), dtype=np.int64)
    for graph in range(len(ptr) - 1):
        start, stop = ptr[graph], ptr[graph + 1]
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
    return order
