"""Rows of graphs into zero-padded blocks of positions and back: only existing rows are read."""

import numpy as np

from permlab.tasks.engine.compiled import compiled


@compiled
def copy(source: np.ndarray, target: np.ndarray) -> None:
    """Copies between slices that do not overlap."""
    for i in range(len(source)):  # vectorised, because neither index wraps around
        target[i] = source[i]


@compiled
def pad(rows: np.ndarray, ptr: np.ndarray, graphs: np.ndarray, low: int, high: int, out: np.ndarray) -> None:
    """Positions low … high − 1 of the rows [n, k] of these graphs [m], zeros where there is no row, to out [m, …]."""
    k, flat = rows.shape[1], rows.reshape(-1)
    for place in range(len(graphs)):
        first = ptr[graphs[place]] + low
        last = max(min(ptr[graphs[place] + 1], first + high - low), first)
        copy(flat[k * first : k * last], out[place])
        out[place][k * (last - first) :] = 0


@compiled
def unpad(padded: np.ndarray, ptr: np.ndarray, graphs: np.ndarray, low: int, high: int, rows: np.ndarray) -> None:
    """The inverse of `pad`: copies the blocks back into the rows [n, k]."""
    k, flat = rows.shape[1], rows.reshape(-1)
    for place in range(len(graphs)):
        first = ptr[graphs[place]] + low
        last = max(min(ptr[graphs[place] + 1], first + high - low), first)
        copy(padded[place][: k * (last - first)], flat[k * first : k * last])
