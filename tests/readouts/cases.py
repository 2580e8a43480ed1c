"""The readouts that every contract test runs on: the built-in ones, and some that a user may write.

Each comes with its formula for one graph, X [n, d] in double precision → [m], by NumPy and plain loops: written from
the docstrings, not from the code.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from permlab.readouts.base import Readout, RowReadout
from permlab.readouts.catalogue import CATALOGUE, build
from permlab.readouts.kernels import GaussianKernels
from permlab.readouts.pooling import Sum
from permlab.readouts.segment_sort import sort_rows
from permlab.readouts.segments import segment_sum
from permlab.readouts.sorting import Ordering
from permlab.readouts.theory.keys import full_spark
from tests.readouts import formulas
from tests.readouts.formulas import Formula, array


@contextmanager
def plain() -> Iterator[None]:
    """The operators as they are defined, even if the engine has registered its kernels in this process."""
    if not find_spec("numba"):
        yield
        return
    from permlab.tasks.engine.kernels import plain_operators

    with plain_operators():
        yield


@contextmanager
def compiled() -> Iterator[None]:
    """The operators by the engine's kernels."""
    from permlab.tasks.engine.kernels import register

    register()
    yield


WAYS: dict[str, Callable[[], AbstractContextManager[None]]] = {"plain": plain}  # how operators run in a contract test
if find_spec("numba"):
    WAYS["compiled"] = compiled


@dataclass(frozen=True)
class Case:
    """How to make a readout for d columns and graphs of at most N nodes, and what it should compute."""

    name: str
    make: Callable[[int, int], Readout]  # d, N
    formula: Formula
    d: int = 2
    invariant: bool = True
    zero_if_empty: bool = True  # whether a graph without nodes gives 0
    sorts: bool = False  # whether it calls an operator
    has_rows: bool = False  # whether its output is its rows and zeros, nothing else

    def __str__(self) -> str:
        return self.name


class MeanInstead(Sum):
    """A user's own: a subclass of the sum that is not a sum."""

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        return segment_sum(x, ptr) / ptr.diff().clamp(min=1)[:, None]


class SquashedOrdering(Ordering):
    """A user's own: a row readout whose output is not just its rows and zeros."""

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        return (super().pool(x, ptr) + 1).tanh()


class CauchyKernels(GaussianKernels):
    """A user's own: another kernel around the same vectors."""

    def features(self, x: Tensor) -> Tensor:
        return 1 / (1 + (x[:, None, :] - self.centres.to(x.dtype)).square().sum(2))


class SortedMoments(RowReadout):
    """A user's own: ↓X beside ↓(X ∘ X), 2d numbers per row."""

    permutation_invariant, injective, lipschitz, bi_lipschitz = True, "no", False, False
    formula, dimension, cost, reference = "[↓X | ↓X²]", "2N·d", "d·n·log n", "nowhere"

    def __init__(self, in_channels: int, max_nodes: int) -> None:
        super().__init__()
        self.in_channels, self.max_nodes, self.row_channels = in_channels, max_nodes, 2 * in_channels
        self.out_channels = max_nodes * self.row_channels

    def rows(self, x: Tensor, ptr: Tensor) -> Tensor:
        return sort_rows(torch.cat([x, x.square()], dim=1), ptr)


def padded(readout: Any, rows: np.ndarray) -> np.ndarray:
    """The rows one after the other, then zeros."""
    out = np.zeros((readout.max_nodes, readout.row_channels if isinstance(readout, RowReadout) else rows.shape[1]))
    out[: len(rows)] = rows
    return out.reshape(-1)


def descending(X: np.ndarray) -> np.ndarray:
    """Each column on its own."""
    columns = [sorted(column, reverse=True) for column in X.T.tolist()]
    return np.array(columns).reshape(X.shape[1], X.shape[0]).T


def ordering(readout: Any, X: np.ndarray) -> np.ndarray:
    return padded(readout, descending(X @ array(readout.key)))


def reduced(readout: Any, X: np.ndarray) -> np.ndarray:
    rows = descending(X @ array(readout.key))
    return array(readout.weight) @ padded(readout, rows)


def sort(readout: Any, X: np.ndarray) -> np.ndarray:
    rows = sorted(X.tolist(), key=lambda row: row[::-1], reverse=True)
    return padded(readout, np.array(rows).reshape(X.shape))


def gaussian(readout: Any, X: np.ndarray) -> np.ndarray:
    out = np.zeros(readout.out_channels)
    for x in X:
        length = np.linalg.norm(x)
        u = x / length if readout.normalise and length > 0 else x
        for j, a in enumerate(array(readout.centres)):
            out[j] += np.exp(-(np.linalg.norm(u - a) ** 2) / readout.sigma**2)
    return out / max(len(X), 1) if readout.mean else out


def cauchy(readout: Any, X: np.ndarray) -> np.ndarray:
    return np.array([sum(1 / (1 + np.linalg.norm(x - a) ** 2) for x in X) for a in array(readout.centres)], dtype=float)


def fourier(readout: Any, X: np.ndarray) -> np.ndarray:
    sums = [sum(np.exp(2j * np.pi * (x @ y)) for x in X) for y in array(readout.frequencies)]
    return np.concatenate([np.real(sums), np.imag(sums)]).astype(float)


def exponents(d: int, degree: int) -> list[tuple[int, ...]]:
    """1 ≤ |p| ≤ degree, by |p|, then the first entry descending, and so on."""
    unsorted = (p for p in itertools.product(range(degree + 1), repeat=d) if 1 <= sum(p) <= degree)
    return sorted(unsorted, key=lambda p: (sum(p), *(-entry for entry in p)))


def power_sums(readout: Any, X: np.ndarray) -> np.ndarray:
    powers = exponents(X.shape[1], readout.max_nodes)
    return np.array([sum(np.prod(x ** np.array(p)) for x in X) for p in powers], dtype=float)


def alpha0(readout: Any, X: np.ndarray) -> np.ndarray:
    """Π_k (t − ⟨x_k, ·⟩) as {exponents of X₁ … X_d: coefficient}, factor by factor."""
    d = X.shape[1]
    product = {(0,) * d: 1.0}
    for x in X:
        longer = dict(product)  # times t
        for p, coefficient in product.items():
            for j in range(d):
                q = (*p[:j], p[j] + 1, *p[j + 1 :])
                longer[q] = longer.get(q, 0.0) - x[j] * coefficient
        product = longer
    return np.array([product.get(p, 0.0) for p in exponents(d, readout.max_nodes)])


def zeta0(readout: Any, X: np.ndarray) -> np.ndarray:
    roots = np.zeros(readout.max_nodes, dtype=complex)
    roots[: len(X)] = X[:, 0] + 1j * X[:, 1]
    q = np.poly(roots)[1:]
    return np.stack([q.real, q.imag], axis=1).reshape(-1)


def in_the_ball(inner: Formula) -> Formula:
    def formula(readout: Any, X: np.ndarray) -> np.ndarray:
        length = np.linalg.norm(X)
        return np.append(inner(readout, X / max(length, 1)), length)

    return formula


def alpha2(readout: Any, X: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(X)
    return np.append(length * alpha0(readout, X / length) if length else alpha0(readout, X), length)


def set2set(readout: Any, X: np.ndarray) -> np.ndarray:
    """The gates of an LSTM are stacked as input, forget, cell, output."""
    into, again, bias_into, bias_again = (array(weight) for weight in readout.lstm.parameters())

    def sigmoid(value: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-value))

    d = X.shape[1]
    q, cell, q_star = np.zeros(d), np.zeros(d), np.zeros(2 * d)
    for _ in range(readout.steps):
        let_in, forget, new, out = np.split(into @ q_star + bias_into + again @ q + bias_again, 4)
        cell = sigmoid(forget) * cell + sigmoid(let_in) * np.tanh(new)
        q = sigmoid(out) * np.tanh(cell)
        weights = np.exp(X @ q - max(X @ q, default=0))
        mean = (weights / weights.sum()) @ X if len(X) else np.zeros(d)
        q_star = np.concatenate([q, mean])
    return q_star


def identity(readout: Any, X: np.ndarray) -> np.ndarray:
    return padded(readout, X)


def sorted_moments(readout: Any, X: np.ndarray) -> np.ndarray:
    return padded(readout, descending(np.concatenate([X, X**2], axis=1)))


def total(readout: Any, X: np.ndarray) -> np.ndarray:
    return np.array([sum(column) for column in X.T], dtype=float)


FORMULAS: dict[str, Formula] = {
    "ordering": ordering,
    "kernels": gaussian,
    "identity": identity,
    "augment": identity,
    "sum": total,
    "sort": sort,
    "set2set": set2set,
    "reduced": reduced,
    "alpha0": alpha0,
    "alpha1": in_the_ball(alpha0),
    "alpha2": alpha2,
    "zeta0": zeta0,
    "zeta1": in_the_ball(zeta0),
    "power_sums": power_sums,
    "polynomial": power_sums,
    "fourier": fourier,
    "trained_ordering": ordering,
    **formulas.FORMULAS,
}
NOT_INVARIANT = ("identity", "augment", "gru", "lstm", "mlp")
NOT_ZERO_IF_EMPTY = ("set2set", "pswe", "power_mean", "mlp")  # a bias, a reference, the smallest power
OPTIONS = {"set_transformer": {"seed": 3}, "multiset_transformer": {"seed": 46}}  # most let nothing through
SORTING = ("ordering", "reduced", "sort", "trained_ordering", "gamma", "rank_one_filters", "fspool", "pswe", "fsw")


def built_in(method: str, name: str = "", **options: Any) -> Case:
    return Case(
        name=name or method,
        make=lambda d, N: build(method, d, N, **options),
        formula=FORMULAS[method],
        d=1 if method == "power_sums" else 2,
        invariant=method not in NOT_INVARIANT,
        zero_if_empty=method not in NOT_ZERO_IF_EMPTY,
        sorts=method in SORTING,
        has_rows=method in ("ordering", "trained_ordering", "identity", "augment", "sort"),
    )


BUILT_IN = [
    *(built_in(method, **OPTIONS.get(method, {})) for method in CATALOGUE),
    built_in("ordering", "ordering-universal", key=full_spark(2, 7)),
    built_in("kernels", "kernels-mean-raw", normalise=False, mean=True, sigma=2.0),
    built_in("reduced", "reduced-trained", trainable=True),
    built_in("set2set", "set2set-one-step", steps=1),
    built_in("gamma", "gamma-trained-few", trainable=True, out_channels=3),
    built_in("rank_one_filters", "rank-one-trained", trainable=True),
    built_in("max_filters", "max-filters-trained", trainable=True, out_channels=4),
    built_in("fsw", "fsw-trained", trainable=True, out_channels=6),
    built_in("power_mean", "power-mean-trained", p=1.5, learn=True),
    built_in("set_transformer", "set-transformer-two-heads", heads=2, seeds=3, seed=5),
]
OWN = [
    Case("own-mean", lambda d, N: MeanInstead(d), lambda r, X: total(r, X) / max(len(X), 1)),
    Case("own-ordering", SquashedOrdering, lambda r, X: np.tanh(ordering(r, X) + 1), zero_if_empty=False, sorts=True),
    Case("own-kernels", lambda d, N: CauchyKernels(d), cauchy),
    Case("own-rows", SortedMoments, sorted_moments, sorts=True, has_rows=True),
]
CASES = [*BUILT_IN, *OWN]
RUNS = [(way, case) for way in WAYS for case in CASES if way == "plain" or case.sorts]
