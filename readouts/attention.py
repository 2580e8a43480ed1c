"""Softmax attention within every graph, and its gradient, compiled: a graph's rows are read while they are at hand."""

import numpy as np

from permlab.readouts.compiled import compiled


@compiled(any_order=True)
def _dot(a: np.ndarray, b: np.ndarray) -> float:
    total = a.dtype.type(0)
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled
def _add(target: np.ndarray, factor: float, row: np.ndarray) -> None:
    for i in range(len(row)):
        target[i] += factor * row[i]


@compiled
def attend(x: np.ndarray, q: np.ndarray, ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a = softmax(⟨x_k, q_b⟩) over the rows k of every graph b, and Σ_k a_k x_k: x [n, d], q [B, d] → [n], [B, d]."""
    weights, mean = np.empty(len(x), dtype=x.dtype), np.zeros_like(q)
    for graph in range(len(q)):
        start, stop = ptr[graph], ptr[graph + 1]
        for k in range(start, stop):
            weights[k] = _dot(x[k], q[graph])
        inside = weights[start:stop]
        if len(inside):
            inside[:] = np.exp(inside - inside.max())
            inside /= inside.sum()
        for k in range(start, stop):
            _add(mean[graph], weights[k], x[k])
    return weights, mean


@compiled
def attend_back(
    x: np.ndarray, ptr: np.ndarray, weights: np.ndarray, mean: np.ndarray, grad_mean: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of the scores, a_k (⟨x_k, ∂mean⟩ − ⟨mean, ∂mean⟩), [n], and of q, Σ_k ∂score_k x_k, [B, d]."""
    grad_score, grad_q = np.empty(len(x), dtype=x.dtype), np.zeros_like(grad_mean)
    for graph in range(len(grad_mean)):
        along = _dot(mean[graph], grad_mean[graph])
        for k in range(ptr[graph], ptr[graph + 1]):
            grad_score[k] = weights[k] * (_dot(x[k], grad_mean[graph]) - along)
            _add(grad_q[graph], grad_score[k], x[k])
    return grad_score, grad_q


@compiled
def spread(tables: np.ndarray, factors: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """Σ_t factor_{t, k} table_{t, b} for every row k of every graph b: tables [T, B, d], factors [T, n] → [n, d]."""
    out = np.zeros((factors.shape[1], tables.shape[2]), dtype=tables.dtype)
    for t in range(len(tables)):
        for graph in range(tables.shape[1]):
            inside, table = slice(ptr[graph], ptr[graph + 1]), tables[t, graph]
            rows, factor = out[inside], factors[t, inside]
            for k in range(len(factor)):
                for c in range(len(table)):
                    rows[k, c] += factor[k] * table[c]
    return out
