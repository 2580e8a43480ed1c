"""A batch with its equal rows taken together: what the first two convolutions need to compute once."""

from typing import NamedTuple

import numpy as np

from permlab.tasks.engine.compiled import compiled


class Quotient(NamedTuple):
    """c first colours of the training graphs, m second colours of the batch, n nodes: see `colours.py`."""

    colour: np.ndarray  # [n] the second colour of every node
    node_ptr: np.ndarray  # [m + 1], [n]: the nodes of every second colour
    node: np.ndarray
    forth: tuple[np.ndarray, np.ndarray, np.ndarray]  # first colours → second colours, as CSR
    back: tuple[np.ndarray, np.ndarray, np.ndarray]  # its transpose
    to_node: np.ndarray  # [entries] the columns of Â, as second colours


def quotient(
    first: np.ndarray, second: np.ndarray, adjacency: tuple[np.ndarray, np.ndarray, np.ndarray], colours: int
) -> Quotient:
    """Of a batch with Â as CSR, whose nodes have these colours; there are so many first ones."""
    colour, node_ptr, node, *arrays, to_node = _quotient(first, second, *adjacency, colours)
    return Quotient(
        colour, node_ptr, node, (arrays[0], arrays[1], arrays[2]), (arrays[3], arrays[4], arrays[5]), to_node
    )


@compiled
def _grouped(of: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Bounds [groups + 1] and the places of every group, ascending; `of` names the group of each place."""
    ptr, place = np.zeros(groups + 1, dtype=np.int32), np.empty(len(of), dtype=np.int32)
    for i in range(len(of)):
        ptr[of[i] + 1] += 1
    for group in range(groups):
        ptr[group + 1] += ptr[group]
    for i in range(len(of)):
        place[ptr[of[i]]] = i
        ptr[of[i]] += 1
    for group in range(groups, 0, -1):
        ptr[group] = ptr[group - 1]
    ptr[0] = 0
    return ptr, place


@compiled
def _quotient(
    first: np.ndarray,
    second: np.ndarray,
    a_ptr: np.ndarray,
    a_column: np.ndarray,
    a_value: np.ndarray,
    colours: int,
) -> tuple[np.ndarray, ...]:
    slots = 1
    while slots < 2 * len(second):
        slots *= 2
    table = np.full(slots, -1, dtype=np.int32)
    colour, example = np.empty(len(second), dtype=np.int32), np.empty(len(second), dtype=np.int32)
    m = entries = 0
    for i in range(len(second)):  # the batch's own numbers for its second colours
        slot = (second[i] * 40503) & (slots - 1)
        while table[slot] >= 0 and second[example[table[slot]]] != second[i]:
            slot = (slot + 1) & (slots - 1)
        if table[slot] < 0:
            table[slot], example[m] = m, i
            entries += a_ptr[i + 1] - a_ptr[i]
            m += 1
        colour[i] = table[slot]
    node_ptr, nodes = _grouped(colour, m)
    ptr, row = np.zeros(m + 1, dtype=np.int32), np.empty(entries, dtype=np.int32)
    column, value = np.empty(entries, dtype=np.int32), np.empty(entries, dtype=a_value.dtype)
    count = 0
    for i in range(m):
        begin = count
        for j in range(a_ptr[example[i]], a_ptr[example[i] + 1]):  # sorted: sums are the same, whoever is the example
            neighbour, weight, place = first[a_column[j]], a_value[j], count
            while place > begin and (column[place - 1], value[place - 1]) > (neighbour, weight):
                column[place], value[place] = column[place - 1], value[place - 1]
                place -= 1
            row[count], column[place], value[place] = i, neighbour, weight
            count += 1
        ptr[i + 1] = count
    back_ptr, order = _grouped(column, colours)
    return colour, node_ptr, nodes, ptr, column, value, back_ptr, row[order], value[order], colour[a_column]
