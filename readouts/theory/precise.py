"""φ(X) in as many digits as mpmath is set to: each readout's formula, to confirm what float64 only suggests.

X [n, d] is an array of mpf. Register a formula for your own readout with `@formula.register`; without one, nothing
about it is confirmed.
"""

import numpy as np
from mpmath import mp, mpc, mpf

from permlab.readouts.algebraic import Alpha0, Alpha1, Alpha2, Zeta0, Zeta1
from permlab.readouts.filters import Gamma, MaxFilters, RankOneFilters, best_places
from permlab.readouts.kernels import FourierKernels, GaussianKernels, PolynomialKernels
from permlab.readouts.polynomial import monomials
from permlab.readouts.pooling import Identity, SortPooling, Sum
from permlab.readouts.set2set import Set2Set
from permlab.readouts.sliced import FSW, PSWE, FSPool
from permlab.readouts.sorting import Ordering, ReducedOrdering
from permlab.readouts.theory import precise_learned  # noqa: F401  # registers its formulas
from permlab.readouts.theory.digits import (
    cosines,
    exponentials,
    formula,
    hyperbolic_tangents,
    length,
    logistic,
    numbers,
    sines,
)

__all__ = ["formula", "length", "numbers"]


@formula.register
def _(readout: Sum, X: np.ndarray) -> np.ndarray:
    return X.sum(axis=0)


@formula.register
def _(readout: Identity, X: np.ndarray) -> np.ndarray:
    return _padded(X, readout.max_nodes)


@formula.register
def _(readout: SortPooling, X: np.ndarray) -> np.ndarray:
    rows = sorted(X.tolist(), key=lambda row: row[::-1], reverse=True)
    return _padded(np.array(rows, dtype=object), readout.max_nodes)


@formula.register
def _(readout: Ordering, X: np.ndarray) -> np.ndarray:
    return _padded(_descending(X @ numbers(readout.key)), readout.max_nodes)


@formula.register
def _(readout: ReducedOrdering, X: np.ndarray) -> np.ndarray:
    return numbers(readout.weight) @ _padded(_descending(X @ numbers(readout.key)), readout.max_nodes)


@formula.register
def _(readout: Gamma, X: np.ndarray) -> np.ndarray:
    return (numbers(readout.weight)[: len(X)] * _descending(X @ numbers(readout.key))).sum(axis=0)


@formula.register
def _(readout: RankOneFilters, X: np.ndarray) -> np.ndarray:
    padded = _descending(
        np.concatenate([X @ numbers(readout.key), _zeros(readout.max_nodes - len(X), len(readout.key.T))])
    )
    return (_descending(numbers(readout.weight)) * padded).sum(axis=0)


@formula.register
def _(readout: MaxFilters, X: np.ndarray) -> np.ndarray:
    templates, rows = numbers(readout.templates), np.arange(len(X))
    scores = np.stack([X @ Z.T for Z in templates], axis=1)  # [n, m, N]
    best = best_places(scores.astype(float), [0, len(X)])
    return np.array([scores[rows, k, best[:, k]].sum() for k in range(len(templates))], dtype=object)


@formula.register
def _(readout: FSPool, X: np.ndarray) -> np.ndarray:
    weight, total, last = numbers(readout.weight), 0 * X[0], max(len(X) - 1, 1)
    for i, row in enumerate(_descending(X)):
        left = min(readout.pieces * i // last, readout.pieces - 1)
        share = mpf(readout.pieces * i) / last - left
        total = total + ((1 - share) * weight[left] + share * weight[left + 1]) * row
    return total


@formula.register
def _(readout: PSWE, X: np.ndarray) -> np.ndarray:
    slices = numbers(readout.slices)
    ascending = _descending(X @ (slices / np.array([length(column) for column in slices.T])))[::-1]
    quantiles, last = [], readout.ranks - 1
    for q in range(readout.ranks):
        left = min(q * (len(X) - 1) // last, max(len(X) - 2, 0))
        share = mpf(q * (len(X) - 1)) / last - left
        quantiles.append((1 - share) * ascending[left] + share * ascending[min(left + 1, len(X) - 1)])
    return (np.array(quantiles) - numbers(readout.reference_values)).reshape(-1)


@formula.register
def _(readout: FSW, X: np.ndarray) -> np.ndarray:
    n, xi = len(X), numbers(readout.frequencies)
    waves = np.stack([sines(2 * mp.pi * xi * i / n) for i in range(n + 1)])
    ascending = _descending(X @ numbers(readout.slices))[::-1]
    return np.append([mpf(n)], (1 + xi) / (mp.pi * xi) * (np.diff(waves, axis=0) * ascending).sum(axis=0))


@formula.register
def _(readout: GaussianKernels, X: np.ndarray) -> np.ndarray:
    u = np.stack([row / (length(row) or 1) for row in X]) if readout.normalise else X
    squares = ((u[:, None] - numbers(readout.centres)) ** 2).sum(axis=2)
    return _summed(exponentials(-squares / mpf(readout.sigma) ** 2), readout.mean)


@formula.register
def _(readout: FourierKernels, X: np.ndarray) -> np.ndarray:
    phase = 2 * mp.pi * (X @ numbers(readout.frequencies).T)
    return _summed(np.concatenate([cosines(phase), sines(phase)], axis=1), readout.mean)


@formula.register
def _(readout: PolynomialKernels, X: np.ndarray) -> np.ndarray:
    powers = np.stack([X**k for k in range(readout.max_nodes + 1)])
    exponents = readout.exponents.numpy()
    columns = [powers[exponents[:, j], :, j].T for j in range(X.shape[1])]
    return _summed(np.prod(columns, axis=0), readout.mean)


@formula.register
def _(readout: Alpha0, X: np.ndarray) -> np.ndarray:
    return _coefficients(readout, X)


@formula.register
def _(readout: Alpha1, X: np.ndarray) -> np.ndarray:
    size = length(X)
    return np.append(_coefficients(readout, X / max(size, 1)), size)


@formula.register
def _(readout: Alpha2, X: np.ndarray) -> np.ndarray:
    size = length(X)
    return np.append(size * _coefficients(readout, X / (size or 1)), size)


@formula.register
def _(readout: Set2Set, X: np.ndarray) -> np.ndarray:
    into, again, bias_into, bias_again = (numbers(weight) for weight in readout.lstm.parameters())
    d = X.shape[1]
    q, cell, q_star = (np.full(size, mpf(0)) for size in (d, d, 2 * d))
    for _ in range(readout.steps):
        gates = into @ q_star + bias_into + again @ q + bias_again
        let_in, forget, new, out = np.split(gates, 4)
        cell = logistic(forget) * cell + logistic(let_in) * hyperbolic_tangents(new)
        q = logistic(out) * hyperbolic_tangents(cell)
        weights = exponentials(X @ q)
        q_star = np.concatenate([q, weights @ X / weights.sum()])
    return q_star


def _zeros(rows: int, columns: int) -> np.ndarray:
    return np.full((rows, columns), mpf(0))


def _padded(rows: np.ndarray, max_nodes: int) -> np.ndarray:
    return np.concatenate([rows, np.full((max_nodes - len(rows), rows.shape[1]), mpf(0))]).reshape(-1)


def _descending(rows: np.ndarray) -> np.ndarray:
    return np.sort(rows, axis=0)[::-1]


def _summed(features: np.ndarray, mean: bool) -> np.ndarray:
    return features.sum(axis=0) / (len(features) if mean else 1)


def _coefficients(readout: Alpha0 | Alpha1 | Alpha2, X: np.ndarray) -> np.ndarray:
    if isinstance(readout, Zeta0 | Zeta1):
        return _of_one_variable(X, readout.max_nodes)
    product = {(0,) * X.shape[1]: mpf(1)}  # exponents of X₁ … X_d: coefficient
    for row in X:
        times_t = dict(product)
        for p, coefficient in product.items():
            for j, value in enumerate(row):
                q = (*p[:j], p[j] + 1, *p[j + 1 :])
                times_t[q] = times_t.get(q, 0) - value * coefficient
        product = times_t
    return np.array([product.get(p, mpf(0)) for p in monomials(X.shape[1], readout.max_nodes)], dtype=object)


def _of_one_variable(X: np.ndarray, max_nodes: int) -> np.ndarray:
    """(Re, Im) of the coefficients of Π_k (t − x_{k,1} − i·x_{k,2}), from t^{N−1} down."""
    q = [mpc(1)]
    for a, b in X:
        q = [upper - mpc(a, b) * lower for upper, lower in zip([*q, 0], [0, *q], strict=True)]
    q += [mpc(0)] * (max_nodes - len(X))
    return np.array([part for value in q[1:] for part in (value.real, value.imag)], dtype=object)
