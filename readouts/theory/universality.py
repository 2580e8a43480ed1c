"""Is A a universal key for n rows? A decision procedure over subspaces, after Proposition 3.8.

Keys of small integers are decided without rounding (`exact_search`). This is the search for all others, in floats.

β_A(X) = β_A(Y) means that permutations Π_j exist with Y a_j = Π_j X a_j for every column a_j of A. For one choice of
permutations those pairs (X, Y) form a subspace E; the pairs with Y = ΠX form a subspace F_Π. A is universal if and
only if every E lies in the union of the n! subspaces F_Π, and a subspace lies in a finite union of subspaces only if
it lies in one of them.

The search goes column by column and keeps E as an orthonormal basis, which only shrinks. It stops
- where E ⊂ F_Π: everything below is X ~ Y. The basis, read as n vectors for X and n for Y, shows this without trying
  permutations: the two families are equal up to order;
- where a child lies in a sibling: the sibling contains everything in it. So a column that adds no information has one
  child.
By symmetry Π_1 = I, and Π_2 is taken once per conjugacy class. Constants (1vᵀ, 1vᵀ) lie in every E and F_Π and are
left out.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations, product
from math import factorial
from time import monotonic
from typing import Any

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from permlab.readouts.checks import as_matrix, check_size
from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory.exact_pairs import Matrix, colliding_pair, null_space, rational
from permlab.readouts.theory.exact_search import MAX_ROWS as EXACT_ROWS
from permlab.readouts.theory.exact_search import decide, exact_enough
from permlab.readouts.theory.spark import enough_columns

MAX_ROWS = 6
MAX_STEP = 10**10  # operations to compare n! null spaces of (n−1)d dimensions: a few seconds
ZERO = 1e-9  # singular values below this count as 0; the gap around it is part of the result
SAFE_GAP = (1e-11, 1e-7)


@dataclass(frozen=True)
class Universality:
    """The verdict on a key. `universal` is None if the budget ran out or the numbers were too close to call."""

    universal: bool | None
    n: int
    d: int
    D: int
    visited: int  # subspaces visited: the size of the proof, or of the search
    gap: tuple[float, float]  # largest singular value counted as 0, smallest counted as nonzero
    reason: str
    exact: tuple[Matrix, Matrix] | None = None  # a pair that collides
    X: Tensor | None = None  # the same pair, rounded
    Y: Tensor | None = None
    rounded: bool = True  # ranks were computed in floats; a refutation is exact all the same

    @property
    def decided(self) -> bool:
        return self.universal is not None


@dataclass(frozen=True)
class _Subspace:
    """A basis of pairs: X and Y [n, d, r], r pairs; the first `columns` columns of the key have been used."""

    X: np.ndarray
    Y: np.ndarray
    columns: int


class _Gap:
    """Tracks how close singular values came to the threshold for 0."""

    def __init__(self) -> None:
        self.zero, self.nonzero = 0.0, np.inf

    def is_zero(self, values: np.ndarray) -> np.ndarray:
        small = values < ZERO
        self.zero = max(self.zero, float(values[small].max(initial=0.0)))
        self.nonzero = min(self.nonzero, float(values[~small].min(initial=np.inf)))
        return small

    @property
    def safe(self) -> bool:
        return self.zero < SAFE_GAP[0] and self.nonzero > SAFE_GAP[1]


def check_universal(
    A: Any,
    n: int,
    budget: int = 1_000_000,
    seconds: float = float("inf"),
    progress: Callable[[int], None] | None = None,
) -> Universality:
    """Decide whether β_A is injective on matrices of n rows modulo row permutations.

    A full spark key with D ≥ n(d−1) + 1 columns is universal for any n. Other keys are searched, which is exponential:
    n ≤ 6, or 7 if the key is of small integers. Not universal: the result holds X, Y [n, d] with β_A(X) = β_A(Y) and
    X ≁ Y in rational arithmetic. Universal: `visited` subspaces prove it, exactly if the key is of small integers; else
    `gap` says how clear-cut the ranks were. `budget` bounds the subspaces, `seconds` the time.
    """
    key = as_matrix("the key A", A).detach().double().numpy()
    d, D = key.shape
    check_size("n", n)
    if d <= D and enough_columns(key, n):
        reason = f"full spark with D ≥ n(d−1) + 1 = {n * (d - 1) + 1} columns"
        return Universality(True, n, d, D, 0, (0.0, np.inf), reason, rounded=False)
    if exact_enough(key, n):
        return _decided_exactly(key, n, budget, seconds, progress)
    check_within_reach(n, d)
    if np.linalg.matrix_rank(key) < d:
        return _of_low_rank(key, n)
    return search_in_floats(key, n, budget, seconds, progress)


def _decided_exactly(
    key: np.ndarray, n: int, budget: int, seconds: float, progress: Callable[[int], None] | None
) -> Universality:
    decision = decide(key, n, budget, seconds, progress)
    reasons = {
        True: "every choice of permutations forces two equal rows",
        False: "a pair collides",
        None: f"not decided within {decision.visited:,} subspaces",
    }
    d, D = key.shape
    reason = reasons[decision.universal]
    verdict = Universality(decision.universal, n, d, D, decision.visited, (0.0, np.inf), reason, rounded=False)
    return _refuted(verdict, *decision.pair) if decision.pair else verdict


def search_in_floats(
    key: np.ndarray,
    n: int,
    budget: int = 1_000_000,
    seconds: float = float("inf"),
    progress: Callable[[int], None] | None = None,
) -> Universality:
    """The search for a key [d, D] of rank d."""
    (d, D), deadline = key.shape, monotonic() + seconds
    basis, working = _standard_form(key)
    orders = np.array(list(permutations(range(n))))
    gap, visited, unconfirmed = _Gap(), 0, False
    roots = _roots(n, d, orders)
    stack: list[_Subspace] = []

    def verdict(universal: bool | None, reason: str) -> Universality:
        return Universality(universal, n, d, D, visited, (gap.zero, gap.nonzero), reason)

    while space := stack.pop() if stack else next(roots, None):
        if visited == budget or monotonic() > deadline:
            return verdict(None, f"not decided within {visited:,} subspaces")
        visited += 1
        if progress and visited % 256 == 0:
            progress(visited)
        if _equal_families(space.X, space.Y, gap):
            continue
        if space.columns < D:
            stack.extend(_children(space, working[:, space.columns], orders, gap))
        elif pair := colliding_pair(key, *_any_pair(space, basis)):
            return _refuted(verdict(False, "a pair collides"), *pair)
        else:
            unconfirmed = True
    if unconfirmed:
        return verdict(None, "a pair collides nearly, but not in rational arithmetic")
    return verdict(True, "every subspace lies in one X ~ Y") if gap.safe else verdict(None, "ranks too close to call")


def _of_low_rank(key: np.ndarray, n: int) -> Universality:
    """A row v with vᵀA = 0 has the same image as a zero row."""
    d, D = key.shape
    columns = zip(*rational(key), strict=True)
    null = null_space([{k: a for k, a in enumerate(column) if a} for column in columns], d)
    zero = [[Fraction(0)] * d for _ in range(n)]
    verdict = Universality(None, n, d, D, 1, (0.0, np.inf), "ranks too close to call")
    if not null:
        return verdict
    return _refuted(replace(verdict, universal=False, reason="A has rank below d"), [null[0], *zero[1:]], zero)


def _refuted(verdict: Universality, X: Matrix, Y: Matrix) -> Universality:
    rounded = [torch.tensor(matrix, dtype=torch.float64) for matrix in (X, Y)]
    return replace(verdict, exact=(X, Y), X=rounded[0], Y=rounded[1])


def check_within_reach(n: int, d: int) -> None:
    if n > MAX_ROWS:
        raise ReadoutError(
            f"n is {n}; the search enumerates permutations of n rows and takes 1 ≤ n ≤ {MAX_ROWS}, "
            f"or {EXACT_ROWS} for a key of small integers"
        )
    if not within_reach(n, d):
        raise ReadoutError(f"n = {n}, d = {d} is too large a search: d must be at most {_largest_width(n)} for n = {n}")


def decidable(A: Any, n: int) -> bool:
    """Does `check_universal` take this key and n?"""
    return within_reach(n, len(A)) or enough_columns(A, n) or exact_enough(as_matrix("A", A).double().numpy(), n)


def within_reach(n: int, d: int) -> bool:
    """Are n rows of d columns few enough that one step, comparing n! null spaces, takes seconds?"""
    return n <= MAX_ROWS and d <= _largest_width(n)


def _largest_width(n: int) -> int:
    return int((MAX_STEP / factorial(n) ** 2) ** (1 / 3)) // max(n - 1, 1)


def _standard_form(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """V⁻¹ and [I | Ã]: A up to V⁻¹ from the left and the order and length of its columns (Proposition 3.5)."""
    d = len(key)
    _, _, pivots = scipy.linalg.qr(key, mode="economic", pivoting=True)
    order = np.concatenate([pivots[:d], np.sort(pivots[d:])])
    inverse = np.linalg.inv(key[:, order[:d]])
    working = inverse @ key[:, order]
    norms = np.linalg.norm(working, axis=0)
    return inverse, working / np.where(norms > 0, norms, 1)


def _roots(n: int, d: int, orders: np.ndarray) -> Iterator[_Subspace]:
    """After the columns of I: y_1 = x_1, y_k = Π_k x_k, with Π_2 once per conjugacy class; column sums are 0. Lazily:
    there are n!^(d−2) per class.
    """
    centred = scipy.linalg.helmert(n).T / np.sqrt(2)  # [n, n − 1], so that (x, Πx) has length 1
    second = _class_representatives(n) if d > 1 else []
    for rest in product(second, *[orders] * (d - 2)) if d > 1 else [()]:
        X = np.zeros((n, d, d, n - 1))
        Y = np.zeros((n, d, d, n - 1))
        for k, order in enumerate([np.arange(n), *rest]):
            X[:, k, k] = centred
            Y[:, k, k] = centred[order]
        yield _Subspace(X.reshape(n, d, -1), Y.reshape(n, d, -1), columns=d)


def _class_representatives(n: int) -> list[np.ndarray]:
    """One permutation of each cycle type."""

    def partitions(left: int, largest: int) -> Iterator[list[int]]:
        if left == 0:
            yield []
        for part in range(min(left, largest), 0, -1):
            for others in partitions(left - part, part):
                yield [part, *others]

    representatives = []
    for lengths in partitions(n, n):
        order, start = np.arange(n), 0
        for length in lengths:
            order[start : start + length] = np.roll(order[start : start + length], 1)
            start += length
        representatives.append(order)
    return representatives


def _equal_families(X: np.ndarray, Y: np.ndarray, gap: _Gap) -> bool:
    """Is {X_1, …, X_n} = {Y_1, …, Y_n} with multiplicities? For a basis this says E ⊂ F_Π for some Π."""
    x, y = X.reshape(len(X), -1), Y.reshape(len(Y), -1)
    same = gap.is_zero(np.linalg.norm(x[:, None] - y[None], axis=2))
    repeats = gap.is_zero(np.linalg.norm(x[:, None] - x[None], axis=2))
    return bool((same.sum(axis=1) == repeats.sum(axis=1)).all())


def _children(space: _Subspace, a: np.ndarray, orders: np.ndarray, gap: _Gap) -> list[_Subspace]:
    """E ∩ {Y a = Π X a} over all Π, largest last (the stack takes it first), none inside another."""
    U, V = np.einsum("idr,d->ir", space.X, a), np.einsum("idr,d->ir", space.Y, a)
    if _equal_families(U, V, gap):
        return [_Subspace(space.X, space.Y, space.columns + 1)]
    r = U.shape[1]
    _, singular, right = np.linalg.svd(V - U[orders], full_matrices=True)  # [n!, n, r]
    ranks = (~gap.is_zero(singular)).sum(axis=1)
    kept = np.flatnonzero(ranks < r)
    # projectors onto the null spaces, [kept, r, r]
    masked = right[kept] * (np.arange(r) >= ranks[kept, None])[:, :, None]
    projectors = masked.transpose(0, 2, 1) @ masked
    children = []
    for place in _maximal(projectors, r - ranks[kept], gap)[::-1]:
        null = right[kept[place], ranks[kept[place]] :].T
        children.append(_Subspace(space.X @ null, space.Y @ null, space.columns + 1))
    return children


def _maximal(projectors: np.ndarray, dimensions: np.ndarray, gap: _Gap) -> list[int]:
    """Indices of the subspaces that lie in no other, larger ones first; of equal ones the first."""
    kept: list[int] = []
    for place in np.argsort(-dimensions, kind="stable"):
        if kept:
            inside = projectors[place] - projectors[kept] @ projectors[place]
            if gap.is_zero(np.linalg.norm(inside, axis=(1, 2))).any():
                continue
        kept.append(int(place))
    return kept


def _any_pair(space: _Subspace, basis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A random X, Y [n, d] of the subspace: almost every pair has the same permutations."""
    weights = np.random.default_rng(0).standard_normal(space.X.shape[2])
    return space.X @ weights @ basis, space.Y @ weights @ basis
