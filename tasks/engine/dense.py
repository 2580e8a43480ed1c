"""Dense layers, forward and backward: BLAS for the products, one pass for bias, activation and mask.

Matrices are float32 and C-contiguous. Activations by number: 0 none, 1 ReLU, 2 tanh, 3 ELU.
"""

import numpy as np

from permlab.tasks.engine.compiled import compiled
from permlab.tasks.engine.exponential import elu, tanh
from permlab.tasks.engine.product import product

KINDS = {"Identity": 0, "ReLU": 1, "Tanh": 2, "ELU": 3}
BLOCK = 128  # rows of a product at a time: small enough for BLAS to skip its packing, up to 1.8 times as fast
WIDE_BLOCK = 1024  # where it packs anyway: up to 1.15 times as fast as BLOCK
_SMALL = 10**6  # OpenBLAS packs if n · p · q exceeds this
_ROWS = 64  # rows summed before they are added to the total, so that rounding stays small
_ZERO, _ONE = np.float32(0), np.float32(1)


@compiled
def finish(z: np.ndarray, bias: np.ndarray, kind: int, mask: np.ndarray) -> None:
    """σ(z + bias) · mask, in place; a mask without rows means no mask."""
    q = z.shape[1]
    bits, rest = np.empty(q, dtype=np.int32), np.empty(q, dtype=np.float32)
    power = bits.view(np.float32)
    for i in range(len(z)):
        row = z[i]
        if kind == 1:
            for c in range(q):
                value = row[c] + bias[c]
                row[c] = _ZERO if value < 0 else value  # NaN stays NaN
        else:
            for c in range(q):
                row[c] += bias[c]
            if kind == 2:
                tanh(row, bits, power, rest)
            elif kind == 3:
                elu(row, bits, power, rest)
        if len(mask):
            for c in range(q):
                row[c] *= mask[i, c]


@compiled
def slope(grad: np.ndarray, out: np.ndarray, kind: int, mask: np.ndarray, keep: float) -> None:
    """The gradient of z from that of `finish`'s result `out`, in place. What the mask kept was divided by `keep`."""
    # As one row, which vectorises without a remainder
    scale, g, value = np.float32(keep), grad.reshape(-1), out.reshape(-1)
    if len(mask):
        given = mask.reshape(-1)
        for c in range(len(g)):
            g[c] *= given[c]
    if kind == 1:
        for c in range(len(g)):
            g[c] = _ZERO if value[c] <= 0 else g[c]
    elif kind == 2:
        for c in range(len(g)):
            g[c] *= _ONE - (value[c] * scale) * (value[c] * scale)
    elif kind == 3:
        for c in range(len(g)):
            g[c] *= _ONE if value[c] > 0 else value[c] * scale + _ONE


@compiled
def row_sum(rows: np.ndarray, out: np.ndarray) -> None:
    """Σ_i rows_i: [n, q] → [q]."""
    part = np.empty_like(out)
    out[:] = 0
    for first in range(0, len(rows), _ROWS):
        part[:] = 0
        for i in range(first, min(first + _ROWS, len(rows))):
            row = rows[i]
            for c in range(len(part)):
                part[c] += row[c]
        for c in range(len(part)):
            out[c] += part[c]


@compiled
def rows_at_a_time(p: int, q: int) -> int:
    """For products of [n, p] × [p, q] and of [n, p]ᵀ × [n, q]."""
    return BLOCK if BLOCK * p * q <= _SMALL else WIDE_BLOCK


@compiled
def times(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
    """x w: [n, p] × [p, q]."""
    rows = rows_at_a_time(*w.shape)
    for first in range(0, len(x), rows):
        product(x[first : first + rows], w, out[first : first + rows], False, False, False)


@compiled
def outer(x: np.ndarray, grad: np.ndarray, out: np.ndarray) -> None:
    """xᵀ grad: [n, p], [n, q] → [p, q]."""
    rows = rows_at_a_time(*out.shape)
    out[:] = 0
    for first in range(0, len(x), rows):
        product(x[first : first + rows], grad[first : first + rows], out, True, False, True)


@compiled
def times_transposed(grad: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
    """grad wᵀ: [n, q] × [p, q]ᵀ."""
    if len(grad) > BLOCK:
        times(grad, np.ascontiguousarray(w.T), out)  # BLAS is slower at the transposed product of many rows
    elif len(grad):  # the first step of Set2Set has no rows
        product(grad, w, out, False, True, False)


@compiled
def layer(x: np.ndarray, w: np.ndarray, bias: np.ndarray, kind: int, mask: np.ndarray, out: np.ndarray) -> None:
    """σ(x w + bias) · mask: [n, p] × [p, q], finished while it is in the cache."""
    rows = rows_at_a_time(*w.shape)
    for first in range(0, len(x), rows):
        here = slice(first, first + rows)
        product(x[here], w, out[here], False, False, False)
        finish(out[here], bias, kind, mask[here])


@compiled
def layer_back(
    grad: np.ndarray,
    out: np.ndarray,
    kind: int,
    mask: np.ndarray,
    keep: float,
    x: np.ndarray,
    w: np.ndarray,
    grad_w: np.ndarray,
    grad_bias: np.ndarray,
    grad_x: np.ndarray,
) -> None:
    """From the gradient of `layer`'s result, which is overwritten: those of w, the bias, and x if it has an array."""
    part_bias, back, rows = np.empty_like(grad_bias), np.ascontiguousarray(w.T), rows_at_a_time(*w.shape)
    grad_w[:] = 0
    grad_bias[:] = 0
    for first in range(0, len(grad), rows):
        here = slice(first, first + rows)
        slope(grad[here], out[here], kind, mask[here], keep)
        row_sum(grad[here], part_bias)
        product(x[here], grad[here], grad_w, True, False, True)
        grad_bias += part_bias
        if len(grad_x):
            product(grad[here], back, grad_x[here], False, False, False)


@compiled
def linear(x: np.ndarray, w: np.ndarray, bias: np.ndarray, kind: int, mask: np.ndarray, out: np.ndarray) -> None:
    """σ(x wᵀ + bias) · mask, w [q, p] as `nn.Linear` keeps it."""
    times_transposed(x, w, out)
    finish(out, bias, kind, mask)


@compiled
def linear_back(
    grad: np.ndarray, x: np.ndarray, w: np.ndarray, grad_w: np.ndarray, grad_bias: np.ndarray, grad_x: np.ndarray
) -> None:
    """From the gradient of x wᵀ + bias [n, q]: those of w [q, p], bias [q] and x [n, p]."""
    outer(grad, x, grad_w)
    row_sum(grad, grad_bias)
    times(grad, w, grad_x)


@compiled
def cross_entropy(logits: np.ndarray, y: np.ndarray, grad: np.ndarray) -> float:
    """−Σ (y log s + (1 − y) log(1 − s)) / G, s = 1/(1 + e^−z): max(z, 0) − z y + log(1 + e^−|z|); and its gradient."""
    total = 0.0
    for i in range(len(logits)):
        z, target = np.float64(logits[i]), np.float64(y[i])
        small = np.exp(-abs(z))
        total += max(z, 0.0) - z * target + np.log1p(small)
        grad[i] = ((1.0 if z >= 0 else small) / (1.0 + small) - target) / len(logits)
    return total / len(logits)


@compiled
def squared_error(predictions: np.ndarray, y: np.ndarray, grad: np.ndarray) -> float:
    """Σ (z − y)² / G, and its gradient."""
    total = 0.0
    for i in range(len(predictions)):
        difference = np.float64(predictions[i]) - np.float64(y[i])
        total += difference * difference
        grad[i] = 2 * difference / len(predictions)
    return total / len(predictions)
