"""Nodes that two graph convolutions do not distinguish: the first two rounds of colour refinement.

A node's first colour is its row of Â·Z, its second the multiset of its entries of Â and their first colours
(Weisfeiler and Leman; Sourek et al., "Lossless compression of structured convolutional models via lifting", 2021).
After the first layer nodes of one first colour have one embedding, after the second those of one second colour: in a
batch of molecules, whose features are few, half of the rows are copies. Colours are exact: rows are compared, not
their hashes alone.
"""

from typing import NamedTuple

import numpy as np

from permlab.tasks.engine.compiled import compiled

MOST = 4096  # first colours: all of them go through the first layer at every step
SHARE = 0.25  # second colours a node, at the most
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Colours(NamedTuple):
    """c first colours of n nodes, and their second colours; −1 where a node was left out."""

    x: np.ndarray  # [c, r] float32, the rows of Â·Z
    first: np.ndarray  # [n] int16
    second: np.ndarray  # [n] int32


def colours_of(
    graphs: np.ndarray,
    az: np.ndarray,
    node_ptr: np.ndarray,
    a_ptr: np.ndarray,
    a_column: np.ndarray,
    a_value: np.ndarray,
) -> Colours | None:
    """The colours of these graphs' nodes, or None where there are too many of them to gain by it.

    No other graph is looked at. Bounds and columns that lie outside of the arrays raise ValueError.
    """
    graphs = np.unique(graphs)  # entries are kept once
    most = int(SHARE * check(graphs, node_ptr, a_ptr, a_column))
    first, example = _row_colours(graphs, node_ptr, az.view(np.int32), MOST)
    if not len(example):
        return None
    second = _neighbour_colours(graphs, first, node_ptr, a_ptr, a_column, a_value.view(np.uint32), most)
    return Colours(az[example], first, second) if len(second) else None


@compiled
def check(graphs: np.ndarray, node_ptr: np.ndarray, a_ptr: np.ndarray, a_column: np.ndarray) -> int:
    """The nodes of these graphs, counted; ValueError if a bound or a column lies outside of the arrays."""
    nodes = 0
    for graph in graphs:
        start, stop = node_ptr[graph], node_ptr[graph + 1]
        if not 0 <= start <= stop < len(a_ptr):
            raise ValueError("bounds outside of the arrays")
        for i in range(start, stop):
            if not 0 <= a_ptr[i] <= a_ptr[i + 1] <= len(a_column):
                raise ValueError("bounds outside of the arrays")
            for entry in range(a_ptr[i], a_ptr[i + 1]):
                if not 0 <= a_column[entry] < stop - start:
                    raise ValueError("a column outside of its graph")
        nodes += stop - start
    return nodes


@compiled
def _row_colours(
    graphs: np.ndarray, node_ptr: np.ndarray, rows: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Of rows of bits [n, r]: their colours [n], and one row of each; both empty if there are more than `most`."""
    slots = 4 * most
    table = np.full(slots, -1, dtype=np.int32)
    colour, example = np.full(len(rows), -1, dtype=np.int16), np.empty(most, dtype=np.int64)
    count = 0
    for graph in graphs:
        for i in range(node_ptr[graph], node_ptr[graph + 1]):
            mixed = np.uint64(0)
            for c in range(rows.shape[1]):
                mixed = (mixed ^ np.uint64(rows[i, c])) * _FACTOR
                mixed ^= mixed >> np.uint64(29)
            slot = np.int64(mixed % np.uint64(slots))
            while table[slot] >= 0:
                same, other = True, example[table[slot]]
                for c in range(rows.shape[1]):
                    same = same and rows[i, c] == rows[other, c]
                if same:
                    break
                slot = (slot + 1) % slots
            if table[slot] < 0:
                if count == most:
                    return colour[:0], example[:0]
                table[slot], example[count] = count, i
                count += 1
            colour[i] = table[slot]
    return colour, example[:count].copy()


@compiled
def _neighbour_colours(
    graphs: np.ndarray,
    first: np.ndarray,
    node_ptr: np.ndarray,
    a_ptr: np.ndarray,
    a_column: np.ndarray,
    bits: np.ndarray,
    most: int,
) -> np.ndarray:
    """Second colours [n]; empty if there are more than `most`."""
    slots = 4 * most + 1
    table = np.full(slots, -1, dtype=np.int32)
    second, ptr = np.full(len(first), -1, dtype=np.int32), np.zeros(most + 1, dtype=np.int64)
    entries = np.empty(len(a_column), dtype=np.uint64)  # of every colour: (first colour | bits of Â), ascending
    count = 0
    for graph in graphs:
        start = node_ptr[graph]
        for i in range(start, node_ptr[graph + 1]):
            begin, mixed = ptr[count], np.uint64(0)
            size = a_ptr[i + 1] - a_ptr[i]
            for j in range(size):  # where they would stay if the colour is new, sorted by insertion
                entry = a_ptr[i] + j
                key = np.uint64(first[start + a_column[entry]]) << np.uint64(32) | np.uint64(bits[entry])
                place = begin + j
                while place > begin and entries[place - 1] > key:
                    entries[place] = entries[place - 1]
                    place -= 1
                entries[place] = key
            for j in range(begin, begin + size):
                mixed = (mixed ^ entries[j]) * _FACTOR
                mixed ^= mixed >> np.uint64(29)
            slot = np.int64(mixed % np.uint64(slots))
            while table[slot] >= 0:
                other = table[slot]
                same = ptr[other + 1] - ptr[other] == size
                for j in range(size):
                    same = same and entries[ptr[other] + j] == entries[begin + j]
                if same:
                    break
                slot = (slot + 1) % slots
            if table[slot] < 0:
                if count == most:
                    return second[:0]
                table[slot] = count
                count += 1
                ptr[count] = begin + size
            second[i] = table[slot]
    return second
