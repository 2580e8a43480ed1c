"""Where the nodes and the entries of Â of a batch lie in the flat arrays of a data set, compiled."""

import numpy as np

from permlab.datasets.compiled import compiled

_LINE = 64  # bytes


@compiled
def bounds(graphs: np.ndarray, node_ptr: np.ndarray, a_ptr: np.ndarray, entries: int) -> tuple[np.ndarray, np.ndarray]:
    """Of a batch of these graphs [B]: the bounds of their nodes and of their entries, [B + 1] each.

    A position that there is not raises IndexError; bounds that lie outside of the arrays, ValueError.
    """
    node, entry = np.zeros(len(graphs) + 1, dtype=np.int64), np.zeros(len(graphs) + 1, dtype=np.int64)
    for b in range(len(graphs)):
        if graphs[b] < 0 or graphs[b] >= len(node_ptr) - 1:
            raise IndexError("no such graph")
        first, last = node_ptr[graphs[b]], node_ptr[graphs[b] + 1]
        if not 0 <= first <= last < len(a_ptr) or not 0 <= a_ptr[first] <= a_ptr[last] <= entries:
            raise ValueError("bounds outside of the arrays")
        node[b + 1] = node[b] + last - first
        entry[b + 1] = entry[b] + a_ptr[last] - a_ptr[first]
    return node, entry


@compiled
def assemble(
    graphs: np.ndarray,
    ptr: np.ndarray,
    entry_ptr: np.ndarray,
    node_ptr: np.ndarray,
    a_ptr: np.ndarray,
    a_column: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The nodes [n] and entries [e] in the data set, and the rows' bounds [n + 1] and columns [e] in the batch."""
    node, entry = np.empty(ptr[-1], dtype=np.int64), np.empty(entry_ptr[-1], dtype=np.int64)
    bound, column = np.empty(ptr[-1] + 1, dtype=np.int32), np.empty(entry_ptr[-1], dtype=np.int32)
    for b in range(len(graphs)):
        first, last, start = node_ptr[graphs[b]], node_ptr[graphs[b] + 1], ptr[b]
        shift = entry_ptr[b] - a_ptr[first]
        for i in range(last - first):
            node[start + i] = first + i
            bound[start + i] = a_ptr[first + i] + shift
        for j in range(a_ptr[first], a_ptr[last]):
            entry[j + shift] = j
            column[j + shift] = a_column[j] + start
    bound[ptr[-1]] = entry_ptr[-1]
    return node, entry, bound, column


@compiled
def assemble_whole(
    graphs: np.ndarray,
    ptr: np.ndarray,
    entry_ptr: np.ndarray,
    node_ptr: np.ndarray,
    a_ptr: np.ndarray,
    a_column: np.ndarray,
    a_value: np.ndarray,
    features: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What `assemble` points at, copied graph by graph: rows of features, the rows' bounds, columns and values."""
    width = features.shape[1]
    x, rows = np.empty((ptr[-1], width), dtype=features.dtype), features.reshape(-1)
    bound, flat = np.empty(ptr[-1] + 1, dtype=np.int32), x.reshape(-1)
    column, value = np.empty(entry_ptr[-1], dtype=np.int32), np.empty(entry_ptr[-1], dtype=a_value.dtype)
    for b in range(len(graphs)):
        first, last, start = node_ptr[graphs[b]], node_ptr[graphs[b] + 1], ptr[b]
        _copy(rows[first * width : last * width], flat[start * width : ptr[b + 1] * width])
        begin, end = a_ptr[first], a_ptr[last]
        _copy(a_value[begin:end], value[entry_ptr[b] : entry_ptr[b + 1]])
        _copy_moved(a_column[begin:end], start, column[entry_ptr[b] : entry_ptr[b + 1]])
        _copy_moved(a_ptr[first:last], entry_ptr[b] - begin, bound[start : ptr[b + 1]])
    bound[ptr[-1]] = entry_ptr[-1]
    return x, bound, column, value


@compiled
def _copy(source: np.ndarray, target: np.ndarray) -> None:
    for i in range(len(source)):  # of two slices: vectorised, as neither wraps around
        target[i] = source[i]


@compiled
def _copy_moved(source: np.ndarray, by: int, target: np.ndarray) -> None:
    for i in range(len(source)):
        target[i] = source[i] + by


@compiled
def assemble_permuted(
    graphs: np.ndarray,
    ptr: np.ndarray,
    entry_ptr: np.ndarray,
    node_ptr: np.ndarray,
    a_ptr: np.ndarray,
    a_column: np.ndarray,
    orders: np.ndarray,
    row: np.ndarray,
    begin: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """As `assemble`, position i of graph b taken by its node orders[row[b], begin[b] + i].

    What is damaged raises ValueError.
    """
    node, entry = np.empty(ptr[-1], dtype=np.int64), np.empty(entry_ptr[-1], dtype=np.int64)
    bound, column = np.empty(ptr[-1] + 1, dtype=np.int32), np.empty(entry_ptr[-1], dtype=np.int32)
    position = np.empty(ptr[-1], dtype=np.int32)
    count = 0
    for b in range(len(graphs)):
        first, start, size = node_ptr[graphs[b]], ptr[b], ptr[b + 1] - ptr[b]
        for i in range(size):
            old = orders[row[b], begin[b] + i]
            position[start + old] = start + i
            node[start + i] = first + old
        for i in range(start, start + size):
            bound[i] = count
            if not a_ptr[first] <= a_ptr[node[i]] <= a_ptr[node[i] + 1] <= a_ptr[first + size]:
                raise ValueError("bounds outside of the arrays")
            for j in range(a_ptr[node[i]], a_ptr[node[i] + 1]):
                if not 0 <= a_column[j] < size:
                    raise ValueError("a column outside of its graph")
                entry[count] = j
                column[count] = position[start + a_column[j]]
                count += 1
    bound[ptr[-1]] = count
    return node, entry, bound, column


@compiled
def touch(
    graphs: np.ndarray,
    node_ptr: np.ndarray,
    a_ptr: np.ndarray,
    a_column: np.ndarray,
    a_value: np.ndarray,
    features: np.ndarray,
) -> float:
    """Reads one number of every cache line that a batch needs: nothing waits for another, so they come at once.

    Graphs lie far apart: what follows would wait for a line at a time. `features` are flat, the same number a node.
    The sum of what was read means nothing, but without it nothing would be read.
    """
    width, touched = len(features) // max(len(a_ptr) - 1, 1), 0.0
    for graph in graphs:
        touched += node_ptr[graph]
    for graph in graphs:
        touched += a_ptr[node_ptr[graph]] + a_ptr[node_ptr[graph + 1]]
    for graph in graphs:
        first, last = node_ptr[graph], node_ptr[graph + 1]
        for node in range(first, last, _LINE // 8):
            touched += a_ptr[node]
        for entry in range(a_ptr[first], a_ptr[last], _LINE // 4):
            touched += a_column[entry] + a_value[entry]
        for place in range(width * first, width * last, _LINE // 4):
            touched += features[place]
    return touched
