"""exp, tanh, sigmoid and softmax of rows of floats, written so that the compiler vectorises them.

e^x = 2^k e^r with k = round(x / ln 2), r = x − k ln 2 in ±ln 2 / 2, e^r − 1 by Taylor's polynomial; for x ≤ 0.
"""

import numpy as np

from permlab.tasks.engine.compiled import compiled

_LOW = np.float32(-87.0)  # exp of less is subnormal: smaller x are raised to this
_INVERSE, _HIGH, _REST = np.float32(1 / np.log(2)), np.float32(0.693359375), np.float32(-2.12194440e-4)
_C7, _C6, _C5, _C4, _C3, _C2, _ONE = (np.float32(1 / value) for value in (5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0))
_HALF, _ZERO, _TWO = np.float32(0.5), np.float32(0.0), np.float32(2.0)


@compiled
def exp_parts(x: np.ndarray, bits: np.ndarray, rest: np.ndarray) -> None:
    """2^k, as the bits of a float, and e^r − 1 of every x ≤ 0. NaN stays NaN."""
    for c in range(len(x)):
        value = _LOW if x[c] < _LOW else x[c]
        k = np.floor(value * _INVERSE + _HALF)
        r = (value - k * _HIGH) - k * _REST
        p = ((((((_C7 * r + _C6) * r + _C5) * r + _C4) * r + _C3) * r + _C2) * r + _ONE) * r
        bits[c] = (np.int32(k) + np.int32(127)) << np.int32(23)
        rest[c] = p


@compiled
def tanh(x: np.ndarray, bits: np.ndarray, power: np.ndarray, rest: np.ndarray) -> None:
    """tanh in place: −w/(2 + w) with the sign of x, w = e^(−2|x|) − 1. `bits` and `power` are the same memory."""
    for c in range(len(x)):
        rest[c] = -_TWO * abs(x[c])
    exp_parts(rest, bits, rest)
    for c in range(len(x)):
        w = power[c] * rest[c] + (power[c] - _ONE)
        value = -w / (_TWO + w)
        x[c] = -value if x[c] < 0 else value


@compiled
def elu(x: np.ndarray, bits: np.ndarray, power: np.ndarray, rest: np.ndarray) -> None:
    """In place: x where it is positive, e^x − 1 elsewhere."""
    for c in range(len(x)):
        rest[c] = _ZERO if x[c] > 0 else x[c]
    exp_parts(rest, bits, rest)
    for c in range(len(x)):
        x[c] = x[c] if x[c] > 0 else power[c] * rest[c] + (power[c] - _ONE)


@compiled
def sigmoid(x: np.ndarray, bits: np.ndarray, power: np.ndarray, rest: np.ndarray) -> None:
    """In place: 1/(1 + e^−x), by e^−|x|."""
    for c in range(len(x)):
        rest[c] = -abs(x[c])
    exp_parts(rest, bits, rest)
    for c in range(len(x)):
        small = power[c] * rest[c] + power[c]
        x[c] = (small if x[c] < 0 else _ONE) / (_ONE + small)


@compiled(any_order=True)
def softmax(x: np.ndarray, bits: np.ndarray, power: np.ndarray, rest: np.ndarray) -> None:
    """Softmax of one graph's scores [m], in place."""
    largest, total = np.float32(-np.inf), _ZERO
    for i in range(len(x)):
        largest = max(largest, x[i])
    for i in range(len(x)):
        rest[i] = x[i] - largest
    exp_parts(rest, bits, rest)
    for i in range(len(x)):
        x[i] = power[i] * rest[i] + power[i]
        total += x[i]
    for i in range(len(x)):
        x[i] /= total
