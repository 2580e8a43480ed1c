"""A batch with its equal rows taken together: what the first two GCN layers need to compute once."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from permlab.datasets.batch import GraphBatch
from permlab.readouts.compiled import compiled
from permlab.tasks.hop import Hop, Step


class Quotient(NamedTuple):
    """c first colours of the training graphs, m second colours of the batch, n nodes: see `datasets/colours.py`."""

    x: Tensor  # [c, r], rows of Â·Z
    steps: tuple[Step, Step]  # first colours → second colours → nodes
    colour: Tensor  # [n] int32, the second colour of every node
    nodes: Hop  # [m, n], the nodes of every second colour


def quotient(batch: GraphBatch) -> Quotient | None:
    """None where there are no colours, or fewer nodes than first colours, or x takes a gradient."""
    if batch.colours is None or len(batch.x) < len(batch.colours.x) or batch.x.requires_grad:
        return None
    x, first, second = batch.colours
    whole = Hop(batch.a_ptr, batch.a_column, batch.a_value)
    found = _quotient(first, second, batch.a_ptr.numpy(), batch.a_column.numpy(), batch.a_value.numpy(), len(x))
    colour, *arrays = (torch.from_numpy(array) for array in found)
    nodes, forth, back = Hop(*arrays[:2]), Hop(*arrays[2:5]), Hop(*arrays[5:8])
    to_nodes = Step(whole._replace(column=arrays[8]), (whole, nodes))
    return Quotient(x.to(batch.x.dtype), (Step(forth, (back,)), to_nodes), colour, nodes)


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
