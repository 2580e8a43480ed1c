"""Sums of Gaussian kernels over the rows of every graph, and their gradient, in blocks that stay in the cache.

X ↦ Σ_k exp(−‖u_k − a_j‖²/σ²), u_k = x_k or x_k/‖x_k‖, with −‖u − a‖² = 2⟨u, a⟩ − ‖u‖² − ‖a‖².
"""

import numpy as np

from permlab.tasks.engine.compiled import compiled
from permlab.tasks.engine.dense import BLOCK
from permlab.tasks.engine.exponential import exp_parts

CANCELLED = np.float32(0.05)  # a sum below this fraction of its terms' sizes is not trusted
_ZERO, _ONE = np.float32(0), np.float32(1)


@compiled
def scales(square: np.ndarray, scale: float, normalise: bool, factor: np.ndarray, minus: np.ndarray) -> None:
    """1/‖x‖ and scale · ‖u‖² of every row from ‖x‖²; zero rows are divided by 1, without `normalise` all rows are."""
    for k in range(len(square)):
        counts = normalise and square[k] > 0
        minus[k] = np.float32(scale) if counts else np.float32(scale) * square[k]
        factor[k] = _ONE / np.sqrt(square[k] if counts else _ONE)


@compiled(any_order=True)
def squares(x: np.ndarray, s: np.ndarray, layer: np.ndarray, out: np.ndarray) -> None:
    """⟨x_k, s_k⟩ of every row. With a layer L, this is ‖x L‖² for s = x L Lᵀ: if its terms cancel, x L is computed."""
    row = np.empty(layer.shape[1], dtype=np.float32)
    for k in range(len(x)):
        total, size = _ZERO, _ZERO
        for c in range(x.shape[1]):
            total += x[k, c] * s[k, c]
            size += abs(x[k, c] * s[k, c])
        if len(layer) and not total > CANCELLED * size:
            row[:] = 0
            for c in range(x.shape[1]):
                for j in range(len(row)):
                    row[j] += x[k, c] * layer[c, j]
            total = _ZERO
            for j in range(len(row)):
                total += row[j] * row[j]
        out[k] = total


@compiled
def kernel_sums(
    x: np.ndarray,
    f: np.ndarray,
    constant: np.ndarray,
    ptr: np.ndarray,
    factor: np.ndarray,
    minus: np.ndarray,
    values: np.ndarray,
    out: np.ndarray,
) -> None:
    """Kernels exp(min(factor · x f + constant − minus, 0)) [n, m] to `values`, their sums over every graph to `out`."""
    m, graph = len(constant), 0
    bits, rest = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.float32)
    power = bits.view(np.float32)
    out[:] = 0
    for first in range(0, len(x), BLOCK):
        last = min(first + BLOCK, len(x))
        np.dot(x[first:last], f, values[first:last])
        for k in range(first, last):
            while k >= ptr[graph + 1]:
                graph += 1
            row, total, scale, shift = values[k], out[graph], factor[k], minus[k]
            for c in range(m):
                value = row[c] * scale + constant[c] - shift
                row[c] = _ZERO if value > 0 else value
            exp_parts(row, bits, rest)
            for c in range(m):
                value = power[c] * rest[c] + power[c]
                row[c] = value
                total[c] += value


@compiled(any_order=True)
def kernel_gradients(
    x: np.ndarray,
    values: np.ndarray,
    f: np.ndarray,
    ptr: np.ndarray,
    factor: np.ndarray,
    grad: np.ndarray,
    grad_x: np.ndarray,
    sums: np.ndarray,
    grad_f: np.ndarray,
) -> None:
    """From the gradient of the sums [B, m]: that of x through x f alone, and of f if it has an array.

    `sums` [n] gets the sum over the kernels of factor_k · values_kj · ∂_bj, the gradient of x f.
    """
    weighed, part, graph = np.empty((BLOCK, values.shape[1]), dtype=np.float32), np.empty_like(grad_f), 0
    back = np.ascontiguousarray(f.T)
    grad_f[:] = 0
    for first in range(0, len(x), BLOCK):
        last = min(first + BLOCK, len(x))
        for k in range(first, last):
            while k >= ptr[graph + 1]:
                graph += 1
            given, source, target, scale, total = grad[graph], values[k], weighed[k - first], factor[k], _ZERO
            for c in range(len(given)):
                target[c] = source[c] * given[c] * scale
                total += target[c]
            sums[k] = total
        np.dot(weighed[: last - first], back, grad_x[first:last])
        if len(grad_f):
            np.dot(x[first:last].T, weighed[: last - first], part)
            grad_f += part


@compiled(any_order=True)
def straighten(x: np.ndarray, s: np.ndarray, factor: np.ndarray, grad_x: np.ndarray, out: np.ndarray) -> None:
    """The effect of scaling to length 1 on the gradient of x: t_k s_k, t_k = −⟨x_k, ∂x_k⟩/‖x_k‖²; t goes to `out`."""
    for k in range(len(x)):
        row, add, target, total = x[k], s[k], grad_x[k], _ZERO
        for c in range(len(row)):
            total += row[c] * target[c]
        total *= -factor[k] * factor[k]
        for c in range(len(row)):
            target[c] += total * add[c]
        out[k] = total
