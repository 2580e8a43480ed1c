"""The steps of Set2Set and their gradients: softmax attention within every graph, and an LSTM's gates."""

import numpy as np

from permlab.tasks.engine.compiled import compiled
from permlab.tasks.engine.exponential import sigmoid, softmax, tanh

_ZERO, _ONE = np.float32(0), np.float32(1)


@compiled
def attend(x: np.ndarray, q: np.ndarray, ptr: np.ndarray, weights: np.ndarray, mean: np.ndarray) -> None:
    """weights [n] = softmax(⟨x_k, q_b⟩) over the rows k of every graph b, and mean [B, d] = Σ_k weight_k x_k.

    x [n, d]; q [B, d], or [1, d] if it is the same for all graphs.
    """
    largest = 0
    for b in range(len(mean)):
        largest = max(largest, ptr[b + 1] - ptr[b])
    bits, rest = np.empty(largest, dtype=np.int32), np.empty(largest, dtype=np.float32)
    power = bits.view(np.float32)
    for b in range(len(mean)):
        rows, scores = x[ptr[b] : ptr[b + 1]], weights[ptr[b] : ptr[b + 1]]
        if len(rows) == 0:
            mean[b] = 0
            continue
        np.dot(rows, q[b % len(q)], scores)
        softmax(scores, bits, power, rest)
        np.dot(scores, rows, mean[b])


@compiled(any_order=True)
def attend_back(
    x: np.ndarray,
    ptr: np.ndarray,
    weights: np.ndarray,
    q: np.ndarray,
    mean: np.ndarray,
    grad_mean: np.ndarray,
    step: int,
    tables: np.ndarray,
    factors: np.ndarray,
    grad_q: np.ndarray,
) -> None:
    """The gradient of q, [B, d]: Σ_k s_k x_k, s_k = a_k (⟨x_k, ∂mean⟩ − ⟨mean, ∂mean⟩) the gradient of the scores. The
    gradient of x, Σ over the steps of a_k ∂mean_b + s_k q_b, is left to `gather`: tables [B, 2T, d], factors [n, 2T].
    """
    scores = np.empty(len(x), dtype=np.float32)
    for b in range(len(mean)):
        rows, inside, along = x[ptr[b] : ptr[b + 1]], scores[ptr[b] : ptr[b + 1]], _ZERO
        for c in range(x.shape[1]):
            along += mean[b, c] * grad_mean[b, c]
        tables[b, 2 * step], tables[b, 2 * step + 1] = grad_mean[b], q[b % len(q)]
        if len(rows) == 0:
            grad_q[b] = 0
            continue
        np.dot(rows, grad_mean[b], inside)
        for k in range(len(rows)):
            weight = weights[ptr[b] + k]
            inside[k] = weight * (inside[k] - along)
            factors[ptr[b] + k, 2 * step], factors[ptr[b] + k, 2 * step + 1] = weight, inside[k]
        np.dot(inside, rows, grad_q[b])


@compiled
def gather(tables: np.ndarray, factors: np.ndarray, ptr: np.ndarray, out: np.ndarray) -> None:
    """Σ_t factor_{k, t} table_{b, t} for every row k of every graph b: tables [B, T, d], factors [n, T] → [n, d]."""
    for b in range(len(tables)):
        if ptr[b + 1] > ptr[b]:
            np.dot(factors[ptr[b] : ptr[b + 1]], tables[b], out[ptr[b] : ptr[b + 1]])


@compiled
def advance(gates: np.ndarray, before: np.ndarray, cell: np.ndarray, slope: np.ndarray, q: np.ndarray) -> None:
    """Gates i, f, g, o [B, 4d], activated in place; cell = f · before + i · g, slope = tanh(cell), q = o · slope."""
    d = cell.shape[1]
    bits, rest = np.empty(2 * d, dtype=np.int32), np.empty(2 * d, dtype=np.float32)
    power = bits.view(np.float32)
    for b in range(len(cell)):
        row, old, new, curved, result = gates[b], before[b % len(before)], cell[b], slope[b], q[b]
        sigmoid(row[: 2 * d], bits, power, rest)
        tanh(row[2 * d : 3 * d], bits, power, rest)
        sigmoid(row[3 * d :], bits, power, rest)
        for c in range(d):
            new[c] = row[d + c] * old[c] + row[c] * row[2 * d + c]
            curved[c] = new[c]
        tanh(curved, bits, power, rest)
        for c in range(d):
            result[c] = row[3 * d + c] * curved[c]


@compiled
def retreat(
    gates: np.ndarray,
    before: np.ndarray,
    slope: np.ndarray,
    grad_q: np.ndarray,
    grad_cell: np.ndarray,
    grad_gates: np.ndarray,
) -> None:
    """Gradients: of q [B, d] and of the cell [B, d] → of the gates [B, 4d] and, in place, of the cell before."""
    d = slope.shape[1]
    for b in range(len(slope)):
        row, to, old = gates[b], grad_gates[b], before[b % len(before)]
        curved, given, carried = slope[b], grad_q[b], grad_cell[b]
        for c in range(d):
            i, f, g, o = row[c], row[d + c], row[2 * d + c], row[3 * d + c]
            total = carried[c] + given[c] * o * (_ONE - curved[c] * curved[c])
            to[c] = total * g * i * (_ONE - i)
            to[d + c] = total * old[c] * f * (_ONE - f)
            to[2 * d + c] = total * i * (_ONE - g * g)
            to[3 * d + c] = given[c] * curved[c] * o * (_ONE - o)
            carried[c] = total * f
