"""Is γ_{A,B}(X)_k = ⟨b_k, ↓(Xa_k)⟩, k ≤ m, injective on n × d matrices up to the order of rows? A [d, m], B [n, m].

The weights are integers, which keeps arithmetic exact.

Where the order of the rows in every column is fixed, γ is linear: γ(X) = G_σ X, with σ_k the order in column k. So γ(X)
= γ(Y) on a pair of orders (σ, τ) is a linear system, G_σ X = G_τ Y, of 2nd unknowns, with the solutions X = Y = 1vᵀ at
least. If its rank is 2nd − d there are no others; else its null space may lie in one {Y = ΠX}; else a linear program
looks for a solution whose rows have these orders. A generic (A, B) with m = 2nd − d is injective (arXiv 2510.22186).

All orders are tried that agree with A row pair by row pair: the signs of ⟨x_i − x_k, a_j⟩, j ≤ m, are those of some
vector of R^d, and ≥ is transitive in every column. A few of them may not occur, which costs time but not truth. By
symmetry the rows of X and those of Y descend in the first column. Arithmetic is exact: full rank modulo a prime is full
rank; the others are solved in fractions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, permutations, product
from math import comb
from time import monotonic

import numpy as np
from scipy.optimize import linprog

from permlab.readouts.checks import check_size
from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory.exact_pairs import Matrix, determinant, null_space, rational
from permlab.readouts.theory.exact_search import MAX_ROWS
from permlab.readouts.theory.least import MAX_MINORS, is_full_spark_exactly
from permlab.readouts.theory.modular import rank, residues
from permlab.readouts.theory.pairs import draw

MOST_PAIRS = 50_000_000  # pairs of orders that `decide` takes on
MOST_DECIDED = 200_000  # pairs of orders that take about a minute
BLOCK = 20_000
LARGEST = 30  # entry of random weights


@dataclass(frozen=True)
class Injectivity:
    """`injective` is None if it was not decided. A pair collides in rational arithmetic."""

    injective: bool | None
    pairs: int  # pairs of orders that were examined
    degenerate: int  # of these, the number whose system has less than full rank
    pair: tuple[Matrix, Matrix] | None = None


def integer_weights(n: int, d: int, m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random integers A [d, m], full spark, and B [n, m]: they stand for generic ones."""
    check_size("n", n, most=MAX_ROWS)
    check_size("d", d, most=MAX_MINORS)
    check_size("m", m, least=d, most=MAX_MINORS)
    check_size("the number of minors of A", comb(m, d), most=MAX_MINORS)
    rng = np.random.default_rng([seed, n, d, m])
    for _ in range(1000):
        A, B = rng.integers(-LARGEST, LARGEST + 1, (d, m)), rng.integers(-LARGEST, LARGEST + 1, (n, m))
        if is_full_spark_exactly(A):
            return A, B
    raise ReadoutError(f"no full spark key of {m} columns has entries of −{LARGEST} … {LARGEST} (d = {d})")


def embedded(X: Matrix, A: Matrix, B: Matrix) -> list[Fraction]:
    """γ_{A,B}(X)."""
    return [
        sum((b * u for b, u in zip(weights, _descending(X, column), strict=True)), Fraction(0))
        for column, weights in zip(zip(*A, strict=True), zip(*B, strict=True), strict=True)
    ]


def _descending(X: Matrix, column: tuple[Fraction, ...]) -> list[Fraction]:
    return sorted((sum((x * a for x, a in zip(row, column, strict=True)), Fraction(0)) for row in X), reverse=True)


def collides(A: Matrix, B: Matrix, X: Matrix, Y: Matrix) -> bool:
    return sorted(X) != sorted(Y) and embedded(X, A, B) == embedded(Y, A, B)


def decide(
    A: np.ndarray,
    B: np.ndarray,
    seconds: float = float("inf"),
    progress: Callable[[int, int | None], None] | None = None,
) -> Injectivity:
    """Examine all pairs of orders."""
    orders = all_orders(A, len(B))
    total = len(orders) * (len(orders) + 1) // 2
    if total > MOST_PAIRS:
        raise ReadoutError(f"{total:,} pairs of orders are too many to decide this; the limit is {MOST_PAIRS:,}")
    first, second = np.triu_indices(len(orders))
    return examine(A, B, orders[first], orders[second], seconds, progress)


def search(A: np.ndarray, B: np.ndarray, X: np.ndarray, Y: np.ndarray, seconds: float = float("inf")) -> Injectivity:
    """Examine the orders of given pairs [pairs, n, d]: never proves that γ is injective."""
    injectivity = examine(A, B, orders_of(X @ A), orders_of(Y @ A), seconds)
    return injectivity if injectivity.pair else Injectivity(None, injectivity.pairs, injectivity.degenerate)


def decide_or_search(
    n: int, d: int, m: int, seed: int, samples: int, progress: Callable[[int, int | None], None] | None = None
) -> Injectivity:
    """Of random weights: first the orders of sampled pairs, then, if none collides and they are few, all orders."""
    A, B = integer_weights(n, d, m, seed)
    X, Y = draw(samples, n, d, seed)
    injectivity = search(A, B, X.numpy(), Y.numpy())
    if injectivity.pair or n > 3 or n + d > 6:  # more than MOST_DECIDED
        return injectivity
    orders = all_orders(A, n)
    return injectivity if len(orders) ** 2 > 2 * MOST_DECIDED else decide(A, B, progress=progress)


def examine(
    A: np.ndarray,
    B: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    seconds: float = float("inf"),
    progress: Callable[[int, int | None], None] | None = None,
) -> Injectivity:
    """Does γ collide in one of these pairs of orders, [pairs, m, n]: the place of every row, 0 for the largest?"""
    n, d, deadline = len(B), len(A), monotonic() + seconds
    degenerate, certain = 0, True
    for start in range(0, len(first), BLOCK):
        if monotonic() > deadline:
            return Injectivity(None, start, degenerate)
        sides = [_linear(A, B, orders[start : start + BLOCK]) for orders in (first, second)]
        system = np.concatenate([sides[0], -sides[1]], axis=2)  # [pairs, m, 2nd]
        full = rank(residues(system[:, :, d:])) == 2 * n * d - d  # x_1 = 0: constants are always solutions
        for place in np.flatnonzero(~full):
            degenerate += 1
            verdict, pair = _of_degenerate(A, B, system[place], first[start + place], second[start + place])
            if pair:
                return Injectivity(False, start + int(place) + 1, degenerate, pair)
            certain = certain and verdict
        if progress:
            progress(min(start + BLOCK, len(first)), len(first))
    return Injectivity(True if certain else None, len(first), degenerate)


def orders_of(images: np.ndarray) -> np.ndarray:
    """The place of every row in every column of XA [pairs, n, m], 0 for the largest: [pairs, m, n]."""
    return (-images).argsort(axis=1, kind="stable").argsort(axis=1).transpose(0, 2, 1)


def _linear(A: np.ndarray, B: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """G_σ: γ(X)_k = Σ_i B[place of row i in column k, k] · ⟨x_i, a_k⟩, [pairs, m, nd]."""
    m, n = orders.shape[1:]
    weights = np.take_along_axis(B.T.astype(np.int64)[None], orders, axis=2)
    return (weights[..., None] * A.T.astype(np.int64)[:, None]).reshape(len(orders), m, n * len(A))


def _of_degenerate(
    A: np.ndarray, B: np.ndarray, system: np.ndarray, first: np.ndarray, second: np.ndarray
) -> tuple[bool, tuple[Matrix, Matrix] | None]:
    """Of orders with further solutions: is it certain that none is a collision? A collision, if one is found."""
    n, d = len(B), len(A)
    basis = null_space([{i: Fraction(int(v)) for i, v in enumerate(row) if v} for row in system], 2 * n * d)
    X, Y = (np.array(basis, dtype=object).reshape(len(basis), 2, n, d)[:, side] for side in (0, 1))
    if any((X[:, order] == Y).all() for order in map(list, permutations(range(n)))):
        return True, None
    descents = []
    for side, orders in ((X, first), (Y, second)):
        floats = side.astype(float)
        for k, place in enumerate(orders):
            sorted_ = (floats @ A[:, k])[:, place.argsort()]
            descents.append((sorted_[:, :-1] - sorted_[:, 1:]).T)
    slopes = np.concatenate(descents)  # weights of the basis → differences that must not be negative
    norms = np.linalg.norm(slopes, axis=1, keepdims=True)
    slopes = slopes / np.where(norms > 0, norms, 1)
    free = norms[:, 0] > 0
    limits = np.column_stack([-slopes[free], np.ones(free.sum())])  # slopes · w ≥ t, largest t
    bounds = [(-1, 1)] * len(basis) + [(None, 1)]
    best = linprog(np.eye(len(basis) + 1)[-1] * -1, A_ub=limits, b_ub=np.zeros(len(limits)), bounds=bounds)
    weights = [Fraction(float(w)).limit_denominator(10**6) for w in best.x[:-1]]
    entries = [sum((w * v[i] for w, v in zip(weights, basis, strict=True)), Fraction(0)) for i in range(2 * n * d)]
    rows = [entries[start : start + d] for start in range(0, 2 * n * d, d)]
    pair = rows[:n], rows[n:]
    return False, pair if collides(rational(A), rational(B), *pair) else None


def all_orders(A: np.ndarray, n: int) -> np.ndarray:
    """All orders [count, m, n] of n rows that descend in the first column; a superset of those that occur."""
    signs = sign_vectors(A)
    above = signs[signs[:, 0]]  # x_i above x_k in the first column, i < k: [patterns, m]
    states = np.zeros((1, 0, A.shape[1]), dtype=bool)  # [states, row pairs, m]
    row_pairs = [(i, k) for k in range(1, n) for i in range(k)]
    for i, k in row_pairs:
        size = len(states) * len(above)
        if size > MOST_PAIRS:
            raise ReadoutError(f"more than {MOST_PAIRS:,} orders of n = {n} rows are too many to decide this")
        states = np.concatenate([states.repeat(len(above), 0), np.tile(above, (len(states), 1))[:, None]], axis=1)
        last = states[:, -1]
        for j in range(i):  # x_j, x_i, x_k
            upper, lower = states[:, row_pairs.index((j, i))], states[:, row_pairs.index((j, k))]
            agree = ~((upper & last & ~lower) | (~upper & ~last & lower)).any(axis=1)
            states, last = states[agree], last[agree]
    places = np.zeros((len(states), A.shape[1], n), dtype=np.int64)
    for pair, (i, k) in enumerate(row_pairs):
        places[:, :, k] += states[:, pair]
        places[:, :, i] += ~states[:, pair]
    return places


def sign_vectors(A: np.ndarray) -> np.ndarray:
    """The signs of (⟨u, a_1⟩, …, ⟨u, a_m⟩) over all u without a zero, [count, m]: True for +. A is full spark.

    Every region has an edge, where d − 1 of the products are 0 and no others; around it, these have all signs.
    """
    d, m = A.shape
    columns = [[int(entry) for entry in column] for column in A.T]
    vectors = set()
    for zero in combinations(range(m), d - 1):
        edge = [  # cofactors: ⟨edge, a⟩ = det[a | a_j, j in zero]
            (-1) ** i * determinant([[Fraction(columns[j][k]) for k in range(d) if k != i] for j in zero])
            for i in range(d)
        ]
        values = [sum(e * a for e, a in zip(edge, column, strict=True)) for column in columns]
        if any((value == 0) != (j in zero) for j, value in enumerate(values)):
            raise ReadoutError(f"A is not full spark: see its columns {', '.join(map(str, zero))}")
        for fill in product((False, True), repeat=d - 1):
            signs = [value > 0 for value in values]
            for j, sign in zip(zero, fill, strict=True):
                signs[j] = sign
            vectors |= {tuple(signs), tuple(not sign for sign in signs)}
    return np.array(sorted(vectors))
