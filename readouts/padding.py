"""Rows of graphs into zero-padded blocks of positions and back, compiled: only what is there is read."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def pad(rows: np.ndarray, ptr: np.ndarray, graphs: np.ndarray, low: int, high: int, out: np.ndarray) -> None:
    """Positions low … high − 1 of the rows [n, k] of these graphs [m], zeros where there is none, to out [m, …]."""
    k = rows.shape[1]
    flat, target = rows.reshape(-1), out.reshape(-1)
    width = (high - low) * k
    for place in range(len(graphs)):
        first, last = ptr[graphs[place]] + low, ptr[graphs[place] + 1]
        filled = k * max(min(last - first, high - low), 0)
        source, to = k * first, place * width
        for i in range(filled):
            target[to + i] = flat[source + i]
        for i in range(filled, width):
            target[to + i] = 0


@njit(cache=True, nogil=True)
def unpad(padded: np.ndarray, ptr: np.ndarray, graphs: np.ndarray, low: int, high: int, rows: np.ndarray) -> None:
    """What `pad` took from the rows [n, k], put back into them."""
    k = rows.shape[1]
    flat, target = padded.reshape(-1), rows.reshape(-1)
    for place in range(len(graphs)):
        first, last = ptr[graphs[place]] + low, ptr[graphs[place] + 1]
        source, to = place * (high - low) * k, k * first
        for i in range(k * max(min(last - first, high - low), 0)):
            target[to + i] = flat[source + i]
