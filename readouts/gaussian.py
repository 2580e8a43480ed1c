"""What lies around the products of the Gaussian kernels, compiled: one pass over the rows each."""

import numpy as np

from permlab.readouts.compiled import compiled


@compiled(any_order=True)
def lengthened(x: np.ndarray, normalise: bool) -> tuple[np.ndarray, np.ndarray]:
    """(u, ‖u‖²) of every row, [n, d] → [n, d + 1], and ‖x‖ [n]; u is x, or x/‖x‖, a zero row itself (its length: 1)."""
    n, d = x.shape
    out, length = np.empty((n, d + 1), dtype=x.dtype), np.ones(n, dtype=x.dtype)
    for k in range(n):
        row, longer = x[k], out[k]
        square = x.dtype.type(0)
        for c in range(d):
            square += row[c] * row[c]
        if normalise and square > 0:
            length[k] = np.sqrt(square)
        square = x.dtype.type(0)
        for c in range(d):
            longer[c] = row[c] / length[k]
            square += longer[c] * longer[c]
        longer[d] = square
    return out, length


@compiled
def scaled(values: np.ndarray, rows: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """Every row of graph b times row b, entry by entry: values [n, m], rows [B, m] → [n, m]."""
    out = np.empty_like(values)
    for graph in range(len(rows)):
        factor = rows[graph]
        inside = slice(ptr[graph], ptr[graph + 1])
        source, target = values[inside], out[inside]
        for k in range(len(source)):
            for c in range(len(factor)):
                target[k, c] = source[k, c] * factor[c]
    return out


@compiled(any_order=True)
def shortened(grad: np.ndarray, longer: np.ndarray, length: np.ndarray, normalise: bool) -> np.ndarray:
    """The gradient of x from that of `lengthened`'s rows, [n, d + 1] → [n, d].

    ∂u = ∂(first d) + 2u ∂(last); of u = x/‖x‖, what is along u does not count.
    """
    n, d = grad.shape[0], grad.shape[1] - 1
    out = np.empty((n, d), dtype=grad.dtype)
    for k in range(n):
        row, given, u = out[k], grad[k], longer[k]
        double, along = 2 * given[d], grad.dtype.type(0)
        for c in range(d):
            row[c] = given[c] + double * u[c]
            along += u[c] * row[c]
        if normalise:
            for c in range(d):
                row[c] = (row[c] - along * u[c]) / length[k]
    return out
