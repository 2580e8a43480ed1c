"""Rows of graphs into zero-padded blocks of positions and back, compiled: only what is there is read."""

import numpy as np

from permlab.readouts.compiled import compiled
from permlab.readouts.loops.vectors import copy


@compiled
def pad(rows: np.ndarray, ptr: np.ndarray, graphs: np.ndarray, low: int, high: int, out: np.ndarray) -> None:
    """Positions low … high − 1 of the rows [n, k] of these graphs [m], zeros where there is none, to out [m, …]."""
    k = rows.shape[1]
    flat, blocks = rows.reshape(-1), out.reshape((len(graphs), (high - low) * k))
    for place in range(len(graphs)):
        first = ptr[graphs[place]] + low
        last = max(min(ptr[graphs[place] + 1], first + high - low), first)
        copy(flat[k * first : k * last], blocks[place])
        blocks[place][k * (last - first) :] = 0


@compiled
def unpad(padded: np.ndarray, ptr: np.ndarray, graphs: np.ndarray, low: int, high: int, rows: np.ndarray) -> None:
    """What `pad` took from the rows [n, k], put back into them."""
    k = rows.shape[1]
    flat, blocks = rows.reshape(-1), padded.reshape((len(graphs), (high - low) * k))
    for place in range(len(graphs)):
        first = ptr[graphs[place]] + low
        last = max(min(ptr[graphs[place] + 1], first + high - low), first)
        copy(blocks[place][: k * (last - first)], flat[k * first : k * last])
