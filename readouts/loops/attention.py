"""Softmax attention within every graph, and its gradient, compiled: a graph's rows are read while they are at hand."""

import numpy as np

from permlab.readouts.compiled import compiled
from permlab.readouts.loops.bags import sum_rows
from permlab.readouts.loops.exponential import softmax
from permlab.readouts.loops.gemm import times
from permlab.readouts.loops.rows import dots
from permlab.readouts.loops.vectors import address


@compiled
def attend(x: np.ndarray, q: np.ndarray, ptr: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """a = softmax(⟨x_k, q_b⟩) over the rows k of every graph b, [n]; Σ_k a_k x_k goes to mean [B, d].

    x [n, d]; q [B, d], or [1, d] if it is the same for all.
    """
    d, weights = x.shape[1], np.empty(len(x), dtype=x.dtype)
    for graph in range(len(mean)):
        start, stop = ptr[graph], ptr[graph + 1]
        rows, to = address(x) + 4 * start * d, address(weights) + 4 * start
        dots(rows, d, stop - start, address(q) + 4 * (graph % len(q)) * d, to)
        softmax(weights[start:stop])
        sum_rows(rows, d, stop - start, to, address(mean) + 4 * graph * d)
    return weights


@compiled
def attend_back(
    x: np.ndarray,
    ptr: np.ndarray,
    weights: np.ndarray,
    q: np.ndarray,
    mean: np.ndarray,
    grad_mean: np.ndarray,
    tables: np.ndarray,
    factors: np.ndarray,
) -> np.ndarray:
    """The gradient of q, [B, d]: Σ_k s_k x_k, s_k = a_k (⟨x_k, ∂mean⟩ − ⟨mean, ∂mean⟩) that of the scores.

    What x gets is left to `spread`: tables [B, 2, d], factors [n, 2].
    """
    d, grad_q = x.shape[1], np.empty_like(grad_mean)
    gradient = np.empty(len(x), dtype=x.dtype)
    for graph in range(len(mean)):
        start, count = ptr[graph], ptr[graph + 1] - ptr[graph]
        along, inside = np.float32(0), gradient[start : start + count]
        for c in range(d):
            along += mean[graph, c] * grad_mean[graph, c]
        tables[graph, 0], tables[graph, 1] = grad_mean[graph], q[graph % len(q)]
        rows, to = address(x) + 4 * start * d, address(gradient) + 4 * start
        dots(rows, d, count, address(grad_mean) + 4 * graph * d, to)
        for k in range(count):
            inside[k] = weights[start + k] * (inside[k] - along)
            factors[start + k, 0], factors[start + k, 1] = weights[start + k], inside[k]
        sum_rows(rows, d, count, to, address(grad_q) + 4 * graph * d)
    return grad_q


@compiled
def spread(tables: np.ndarray, factors: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """Σ_t factor_{k, t} table_{b, t} for every row k of every graph b: tables [B, T, d], factors [n, T] → [n, d]."""
    (n, terms), d = factors.shape, tables.shape[2]
    out = np.empty((n, d), dtype=np.float32)
    for graph in range(len(tables)):
        start, count = ptr[graph], ptr[graph + 1] - ptr[graph]
        left, right = address(factors) + 4 * start * terms, address(tables) + 4 * graph * terms * d
        to = address(out) + 4 * start * d
        times(left, terms, count, terms, right, d, 1, 0, d, 0, 0, 0, to, d)
    return out
