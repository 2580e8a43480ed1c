"""Sums of Gaussian kernels over the rows of every graph, and their gradient: what lies around the two products.

X ↦ Σ_k exp(−‖u_k − a_j‖²/σ²), u_k = x_k or x_k/‖x_k‖, with −‖u − a‖² = 2⟨u, a⟩ − ‖u‖² − ‖a‖².
"""

import numpy as np

from permlab.tasks.engine.compiled import compiled
from permlab.tasks.engine.exponential import exp_parts

_ZERO, _ONE = np.float32(0), np.float32(1)


@compiled(any_order=True)
def dots(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    """⟨x_k, y_k⟩ of every row."""
    for k in range(len(x)):
        left, right, total = x[k], y[k], _ZERO
        for c in range(len(left)):
            total += left[c] * right[c]
        out[k] = total


@compiled
def lengths(x: np.ndarray, scale: float, normalise: bool, factor: np.ndarray, minus: np.ndarray) -> None:
    """1/‖x‖ and scale · ‖u‖² of every row; a zero row is divided by 1, as are all without `normalise`."""
    dots(x, x, factor)
    for k in range(len(x)):
        square = factor[k]
        counts = normalise and square > 0
        factor[k] = _ONE / np.sqrt(square if counts else _ONE)
        minus[k] = np.float32(scale) if counts else np.float32(scale) * square


@compiled
def exp_sums(
    z: np.ndarray, ptr: np.ndarray, factor: np.ndarray, minus: np.ndarray, constant: np.ndarray, out: np.ndarray
) -> None:
    """z [n, m] becomes exp(min(factor z + constant − minus, 0)), and out [B, m] its sums over every graph."""
    m = len(constant)
    bits, rest = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.float32)
    power = bits.view(np.float32)
    for b in range(len(out)):
        total = out[b]
        total[:] = 0
        for k in range(ptr[b], ptr[b + 1]):
            row, scale, shift = z[k], factor[k], minus[k]
            for c in range(m):
                value = row[c] * scale + constant[c] - shift
                row[c] = _ZERO if value > 0 else value
            exp_parts(row, bits, rest)
            for c in range(m):
                value = power[c] * rest[c] + power[c]
                row[c] = value
                total[c] += value


@compiled
def weigh(values: np.ndarray, factor: np.ndarray, grad: np.ndarray, ptr: np.ndarray, out: np.ndarray) -> None:
    """The gradient of ⟨x, 2a⟩/σ²: factor_k · values_kj · ∂_bj of every row k of graph b."""
    for graph in range(len(grad)):
        given = grad[graph]
        for k in range(ptr[graph], ptr[graph + 1]):
            source, target, scale = values[k], out[k], factor[k]
            for c in range(len(given)):
                target[c] = source[c] * given[c] * scale


@compiled(any_order=True)
def straighten(
    x: np.ndarray, weighed: np.ndarray, scale: float, normalise: bool, factor: np.ndarray, grad_x: np.ndarray
) -> None:
    """What ‖u‖² and the scaling to length 1 add to the gradient of x."""
    total = np.empty(len(x), dtype=np.float32)
    if normalise:  # what is along x does not count; a zero row is none
        dots(x, grad_x, total)
        for k in range(len(x)):
            total[k] *= -factor[k] * factor[k]
    else:
        for k in range(len(x)):
            total[k] = np.float32(-2 * scale) * weighed[k].sum()
    for k in range(len(x)):
        row, target, times = x[k], grad_x[k], total[k]
        for c in range(len(row)):
            target[c] += times * row[c]
