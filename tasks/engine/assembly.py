"""A batch's nodes and entries of Â from the flat arrays of a data set."""

import numpy as np

from permlab.tasks.engine.compiled import compiled
from permlab.tasks.engine.padding import copy

_LINE = 64  # bytes


@compiled
def bounds(graphs: np.ndarray, node_ptr: np.ndarray, a_ptr: np.ndarray, entries: int) -> tuple[np.ndarray, np.ndarray]:
    """For a batch of these graphs [B]: the bounds of their nodes and of their entries, [B + 1] each. A position that
    does not exist raises IndexError; bounds outside the arrays raise ValueError.
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
def _copy_moved(source: np.ndarray, by: int, target: np.ndarray, low: int, high: int) -> bool:
    """Whether a value lies outside low … high."""
    outside = False
    for i in range(len(source)):
        target[i] = source[i] + by
        outside |= (source[i] < low) | (source[i] > high)
    return outside


@compiled
def features(graphs: np.ndarray, ptr: np.ndarray, node_ptr: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The graphs' rows [n, r], copied one graph at a time."""
    r = rows.shape[1]
    x, flat = np.empty((ptr[-1], r), dtype=rows.dtype), rows.reshape(-1)
    target = x.reshape(-1)
    for b in range(len(graphs)):
        first, last = node_ptr[graphs[b]], node_ptr[graphs[b] + 1]
        copy(flat[first * r : last * r], target[ptr[b] * r : ptr[b + 1] * r])
    return x


@compiled
def assemble(
    graphs: np.ndarray,
    ptr: np.ndarray,
    entry_ptr: np.ndarray,
    node_ptr: np.ndarray,
    a_ptr: np.ndarray,
    a_column: np.ndarray,
    a_value: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Â of the batch: the rows' bounds [n + 1], the entries' columns and values [e]; ValueError if it is damaged."""
    bound, e = np.empty(ptr[-1] + 1, dtype=np.int32), entry_ptr[-1]
    column, value = np.empty(e, dtype=np.int32), np.empty(e, dtype=a_value.dtype)
    damaged = False
    for b in range(len(graphs)):
        first, last = node_ptr[graphs[b]], node_ptr[graphs[b] + 1]
        here, there, begin = slice(entry_ptr[b], entry_ptr[b + 1]), slice(a_ptr[first], a_ptr[last]), a_ptr[first]
        copy(a_value[there], value[here])
        damaged |= _copy_moved(a_column[there], ptr[b], column[here], 0, last - first - 1)
        rows = bound[ptr[b] : ptr[b + 1]]
        damaged |= _copy_moved(a_ptr[first:last], entry_ptr[b] - begin, rows, begin, a_ptr[last])
        for i in range(len(rows) - 1):
            damaged |= rows[i] > rows[i + 1]
    if damaged:
        raise ValueError("bounds or columns outside of their graph")
    bound[ptr[-1]] = e
    return bound, column, value


@compiled
def assemble_permuted(
    graphs: np.ndarray,
    ptr: np.ndarray,
    entry_ptr: np.ndarray,
    node_ptr: np.ndarray,
    a_ptr: np.ndarray,
    a_column: np.ndarray,
    a_value: np.ndarray,
    orders: np.ndarray,
    row: np.ndarray,
    begin: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The nodes' places [n], then as `assemble`: position i of graph b holds its node orders[row[b], begin[b] + i].
    Damaged arrays raise ValueError.
    """
    node, bound = np.empty(ptr[-1], dtype=np.int64), np.empty(ptr[-1] + 1, dtype=np.int32)
    column, value = np.empty(entry_ptr[-1], dtype=np.int32), np.empty(entry_ptr[-1], dtype=a_value.dtype)
    position = np.empty(ptr[-1], dtype=np.int32)
    count = 0
    for b in range(len(graphs)):
        first, start, size = node_ptr[graphs[b]], ptr[b], ptr[b + 1] - ptr[b]
        for i in range(size):
            old = orders[row[b], begin[b] + i]
            if not 0 <= old < size:
                raise ValueError("an order of another graph")
            position[start + old] = start + i
            node[start + i] = first + old
        for i in range(start, start + size):
            bound[i] = count
            if not a_ptr[first] <= a_ptr[node[i]] <= a_ptr[node[i] + 1] <= a_ptr[first + size]:
                raise ValueError("bounds outside of the arrays")
            for j in range(a_ptr[node[i]], a_ptr[node[i] + 1]):
                if not 0 <= a_column[j] < size:
                    raise ValueError("a column outside of its graph")
                column[count], value[count] = position[start + a_column[j]], a_value[j]
                count += 1
    bound[ptr[-1]] = count
    return node, bound, column, value


@compiled
def touch(
    graphs: np.ndarray,
    node_ptr: np.ndarray,
    a_ptr: np.ndarray,
    a_column: np.ndarray,
    a_value: np.ndarray,
    rows: np.ndarray,
) -> float:
    """Prefetch: reads one number of every cache line that a batch needs. The reads are independent, so they overlap;
    the loops that follow would wait for one line at a time, as graphs lie far apart. `rows` are flat, the same number
    per node. The returned sum means nothing; it keeps the compiler from removing the reads.
    """
    width, touched = len(rows) // max(len(a_ptr) - 1, 1), 0.0
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
            touched += rows[place]
    return touched


@compiled
def row_sums(
    ptr: np.ndarray, a_ptr: np.ndarray, value: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """ptr as int32, 0 … n, the graph of every node, and Â1, the sum of every row of Â."""
    graphs, n = len(ptr) - 1, ptr[-1]
    bounds, rows = np.empty(graphs + 1, dtype=np.int32), np.empty(n + 1, dtype=np.int32)
    graph, sums = np.empty(n, dtype=np.int32), np.empty(n, dtype=value.dtype)
    for row in range(n + 1):
        rows[row] = row
    bounds[0] = 0
    for b in range(graphs):
        bounds[b + 1] = ptr[b + 1]
        graph[ptr[b] : ptr[b + 1]] = b
    for i in range(n):
        total = np.float32(0)
        for j in range(a_ptr[i], a_ptr[i + 1]):
            total += value[j]
        sums[i] = total
    return bounds, rows, graph, sums
