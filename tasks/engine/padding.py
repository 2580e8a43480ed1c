"""Rows of graphs into zero-padded blocks of positions and back, and their products: only existing rows are read."""

import numpy as np

from permlab.tasks.engine.compiled import compiled
from permlab.tasks.engine.product import product


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


@compiled
def pad_and_multiply(
    rows: np.ndarray,
    ptr: np.ndarray,
    graphs: np.ndarray,
    blocks: np.ndarray,
    weight: np.ndarray,
    padded: np.ndarray,
    out: np.ndarray,
) -> None:
    """Adds Σ_i W_i rows[b, i] to out [B, q], block by block: (low, high, graphs that reach so far). The weight is
    (W_0 … W_{N−1}), [q, N k]; `padded` keeps the padded rows of all blocks, one after the other.
    """
    k, end = rows.shape[1], 0
    for low, high, count in blocks:
        begin, end = end, end + count * (high - low) * k
        block = padded[begin:end].reshape(count, (high - low) * k)
        pad(rows, ptr, graphs[:count], low, high, block)
        product(block, weight[:, low * k : high * k], out[:count], False, True, True)


@compiled
def pad_and_multiply_back(
    grad: np.ndarray,
    ptr: np.ndarray,
    graphs: np.ndarray,
    blocks: np.ndarray,
    weight: np.ndarray,
    padded: np.ndarray,
    grad_weight: np.ndarray,
    rows: np.ndarray,
) -> None:
    """From the gradient of `pad_and_multiply`'s sums: those of the weight and the rows. `padded` is overwritten."""
    k, end = rows.shape[1], 0
    for low, high, count in blocks:
        begin, end = end, end + count * (high - low) * k
        block, columns = padded[begin:end].reshape(count, (high - low) * k), slice(low * k, high * k)
        product(grad[:count], block, grad_weight[:, columns], True, False, False)
        product(grad[:count], weight[:, columns], block, False, False, False)
        unpad(block, ptr, graphs[:count], low, high, rows)
