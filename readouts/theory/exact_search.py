"""Is an integer key A universal for n rows? Decided without rounding, for one number of rows after the other.

β_A(X) = β_A(Y) means Y a_j = Π_j X a_j for permutations Π_j, j ≤ D: one choice of them is a linear system with integer
coefficients, and its solutions (X, Y) form a subspace E. If row i of X equals row k of Y on all of E, both can be
removed: the rest collides for n − 1 rows, or not at all. So A is universal for n rows if and only if it is for n − 1
and every choice of permutations forces some x_i = y_k. (A subspace outside each of finitely many others is outside
their union.)

Permutations are chosen column by column, in a column row by row, and E shrinks; a subspace that forces some x_i = y_k
is closed. Where ⟨x_i, a⟩ = ⟨y_k, a⟩ holds on E already, i ↦ k costs nothing: a permutation with i ↦ l, i' ↦ k can be
exchanged for i ↦ k, i' ↦ l on its whole subspace, so no other choice is tried. Simultaneous conjugation of all Π_j
renames rows, so the first columns are taken once per orbit.

Ranks are computed modulo the prime P = 2⁶¹ − 1, which loses nothing: with A = [I | Ã], x_n = 0 and y_k = Π_k x_k put
in, every question is about ranks of matrices whose rows have at most two blocks ±a_j or two entries ±1, of (n−1)d
columns. By Hadamard's inequality their minors are below (√2 · max ‖a_j‖)^((n−1)d). Below P, a minor is 0 modulo P only
if it is 0.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice, permutations
from math import gcd, lcm, log2
from time import monotonic

import numpy as np

from permlab.readouts.theory.exact_pairs import Matrix, echelon_form, pair_under, rational
from permlab.readouts.theory.modular import P, minus, product, residues, times

BATCH = 4096  # subspaces that are handled at once
MAX_ROWS = 7  # (n!)² conjugates are compared


@dataclass(frozen=True)
class Exact:
    """`universal` is None if the budget ran out. A pair collides in rational arithmetic."""

    universal: bool | None
    visited: int  # subspaces: the size of the proof, or of the search
    pair: tuple[Matrix, Matrix] | None = None


@dataclass(frozen=True)
class _Batch:
    """Subspaces E of the same dimension r, all of the same number of columns."""

    basis: np.ndarray  # [batch, r, nd + 2n], modulo P: X row by row, then Xa and Ya of the column under way
    source: np.ndarray  # [batch, nd]: the place in X of every entry of Y
    match: np.ndarray  # [batch, D, n]: the row of Y that each row of X meets, −1 if it is open

    def __len__(self) -> int:
        return len(self.basis)

    def take(self, places: np.ndarray | slice) -> "_Batch":
        return _Batch(self.basis[places], self.source[places], self.match[places])


def standard_form(key: np.ndarray) -> tuple[np.ndarray, list[int]] | None:
    """[I | Ã] in integers and the columns of A that it stands for: A up to a matrix from the left, the order and the
    length of its columns, which do not change whether A is universal (Proposition 3.5). None if A has rank below d or
    is not of (small) integers.
    """
    d, D = key.shape
    if not (np.isfinite(key).all() and (key == np.rint(key)).all() and np.abs(key).max() < 2**31):
        return None
    reduced, pivots = echelon_form(rational(key))
    if len(pivots) < d:
        return None
    order = [*pivots, *(j for j in range(D) if j not in pivots)]
    columns = [_primitive([row[j] for row in reduced]) for j in order]
    if max(abs(entry) for column in columns for entry in column) >= 2**31:
        return None
    return np.array(columns, dtype=np.int64).T, order


def _primitive(column: list[Fraction]) -> list[int]:
    """The column times a number, in integers without a common divisor."""
    scale = lcm(*(entry.denominator for entry in column))
    whole = [int(entry * scale) for entry in column]
    return [entry // max(1, gcd(*whole)) for entry in whole]


def exact_enough(key: np.ndarray, n: int) -> bool:
    """Is this a key of rank d, of integers so small that no minor reaches P?"""
    form = standard_form(key) if n <= MAX_ROWS else None
    return form is not None and _bits(form[0], n) < 61


def largest_entry(n: int, d: int) -> int:
    """The largest K such that [I | Ã] with entries −K … K is decided without rounding."""
    return int(2 ** (60.999 / max(1, (n - 1) * d)) / (2 * d) ** 0.5)


def decide(
    key: np.ndarray,
    n: int,
    budget: float = float("inf"),
    seconds: float = float("inf"),
    progress: Callable[[int], None] | None = None,
    part: tuple[int, int] = (0, 1),
) -> Exact:
    """Decide for 2, 3, …, n rows; a pair that collides for fewer rows is given zero rows. With part (k, K) only every
    K-th root of n rows is searched, and fewer rows by part 0 alone: A is universal if all K parts say so.
    """
    standard = standard_form(key)
    assert standard is not None
    form, order = standard
    outcome = _search_all(form, n, part, budget, monotonic() + seconds, progress)
    if outcome.match is None:
        return Exact(True if outcome.complete else None, outcome.visited)
    return Exact(False, outcome.visited, pair_of(key[:, order], outcome.match, n))


def decide_generic(
    n: int, d: int, D: int, seed: int = 0, seconds: float = float("inf"), part: tuple[int, int] = (0, 1)
) -> Exact:
    """Decide for almost every real key: for [I | Ã] with Ã random modulo P.

    The ranks of the key with unknowns as entries are those for almost every key; a random key modulo P has other ones
    only if a minor, a polynomial of degree ≤ (n−1)d that is not 0, vanishes there: with probability (n−1)d/P (Schwartz
    and Zippel). Each subspace asks fewer than
    n²(d+2) questions, so the verdict is wrong with a probability of at most n²(d+2)·visited·(n−1)d / 2⁶¹.
    """
    rng = np.random.default_rng([seed, n, d])
    columns = [rng.integers(0, P, d) for _ in range(D - d)]
    form = np.column_stack([np.eye(d, dtype=np.int64), *columns])
    outcome = _search_all(form, n, part, float("inf"), monotonic() + seconds, None)
    return Exact(None if outcome.match is None and not outcome.complete else outcome.match is None, outcome.visited)


def _search_all(
    form: np.ndarray,
    n: int,
    part: tuple[int, int],
    budget: float,
    deadline: float,
    progress: Callable[[int], None] | None,
) -> "Found":
    """The roots of n rows that belong to the part, before them, in part 0, those of fewer rows."""
    visited = 0
    for rows in range(2 if part[0] == 0 else n, n + 1):
        first, step = part if rows == n else (0, 1)
        for root in islice(roots(rows, len(form)), first, None, step):
            outcome = search(form, rows, root, budget - visited, deadline, progress)
            visited += outcome.visited
            if not outcome.complete:
                return replace(outcome, visited=visited)
    return Found(visited, complete=True)


@dataclass(frozen=True)
class Found:
    """The search below a root: complete, or ended early, or the permutations [D, n] of a collision."""

    visited: int
    complete: bool
    match: np.ndarray | None = None


def search(
    form: np.ndarray,
    n: int,
    root: np.ndarray,
    budget: float = float("inf"),
    deadline: float = float("inf"),
    progress: Callable[[int], None] | None = None,
) -> Found:
    """Search everything below a root, d permutations, of a key [I | Ã] for n rows."""
    d, D = form.shape
    key, visited = residues(form), 0
    waiting: dict[tuple[int, int], list[_Batch]] = {}  # by columns used and −dimension: the largest key is the deepest

    def push(columns: int, batch: _Batch) -> None:
        if len(batch):
            waiting.setdefault((columns, -batch.basis.shape[1]), []).append(batch)

    push(d, _opened(_root(root, n, D), key, d))
    while waiting:
        if visited >= budget or monotonic() > deadline:
            return Found(visited, complete=False)
        columns, r = deepest = max(waiting)
        batch = _joined(waiting, deepest)
        visited += len(batch)
        if progress:
            progress(visited)
        batch = batch.take(~_forces_equal_rows(batch, n, d))
        if not len(batch):
            continue
        if columns == D:
            return Found(visited, complete=False, match=batch.match[0])
        batch, closed = _matched_for_free(batch, n, d, columns)
        push(columns + 1, _opened(batch.take(closed), key, columns + 1))
        if -r > 1:  # a smaller subspace than a line is 0, where X ~ Y
            push(columns, _branched(batch.take(~closed), n, d, columns))
    return Found(visited, complete=True)


def roots(n: int, d: int) -> Iterator[np.ndarray]:
    """Permutations [d, n] of the columns of I, the first one the identity, once per simultaneous conjugation."""
    orders = np.array(list(permutations(range(n))), dtype=np.int8)
    weights = n ** np.arange(n)
    codes = orders @ weights

    def extended(chosen: list[np.ndarray], stabilizer: np.ndarray) -> Iterator[np.ndarray]:
        if len(chosen) == d:
            yield np.array(chosen)
            return
        smallest = codes.copy()  # of all conjugates gΠg⁻¹
        for g in stabilizer:
            np.minimum(smallest, g[orders[:, g.argsort()]] @ weights, out=smallest)
        for order in orders[smallest == codes]:
            fixing = [g for g in stabilizer if np.array_equal(g[order[g.argsort()]], order)]
            yield from extended([*chosen, order], np.array(fixing))

    yield from extended([orders[0]], orders)


def _bits(form: np.ndarray, n: int) -> float:
    longest = max(float((form.astype(float) ** 2).sum(axis=0).max()), 1.0)
    return (n - 1) * len(form) * (0.5 + log2(longest) / 2)


def _root(root: np.ndarray, n: int, D: int) -> _Batch:
    """All X with x_n = 0, and Y = (Π_1 x_1, …, Π_d x_d)."""
    d = len(root)
    basis = np.zeros((1, (n - 1) * d, n * d + 2 * n), dtype=np.uint64)
    basis[0, np.arange((n - 1) * d), np.arange((n - 1) * d)] = 1
    source = np.empty((1, n, d), dtype=np.intp)
    for k, order in enumerate(root):
        source[0, order, k] = np.arange(n) * d + k
    match = np.full((1, D, n), -1, dtype=np.int8)
    match[0, :d] = root
    return _Batch(basis, source.reshape(1, -1), match)


def _opened(batch: _Batch, key: np.ndarray, column: int) -> _Batch:
    """The batch with Xa and Ya of the given column."""
    if column == key.shape[1]:
        return batch
    d = len(key)
    n = batch.source.shape[1] // d
    X, Y = _matrices(batch, n, d)
    sides = [product(side, key[:, column : column + 1])[..., 0] for side in (X, Y)]
    return replace(batch, basis=np.concatenate([batch.basis[:, :, : n * d], *sides], axis=2))


def _matrices(batch: _Batch, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """X and Y of every vector of every basis, [batch, r, n, d]."""
    X = batch.basis[:, :, : n * d]
    Y = np.take_along_axis(X, batch.source[:, None], axis=2)
    return X.reshape(*X.shape[:2], n, d), Y.reshape(*X.shape[:2], n, d)


def _forces_equal_rows(batch: _Batch, n: int, d: int) -> np.ndarray:
    """[batch]: is some x_i = y_k on all of E?"""
    X, Y = _matrices(batch, n, d)
    return (X[:, :, :, None] == Y[:, :, None]).all(axis=(1, 4)).any(axis=(1, 2))


def _matched_for_free(batch: _Batch, n: int, d: int, column: int) -> tuple[_Batch, np.ndarray]:
    """Matches i ↦ k with ⟨x_i, a⟩ = ⟨y_k, a⟩ on E. Which subspaces have all rows matched, [batch]."""
    u, v = batch.basis[:, :, n * d : n * d + n], batch.basis[:, :, n * d + n :]
    match = batch.match.copy()
    now = match[:, column]  # a view
    same = (u[:, :, :, None] == v[:, :, None]).all(axis=1)  # [batch, n, n]
    free = ~(now[:, :, None] == np.arange(n)).any(axis=1)  # rows of Y
    for i in range(n):
        able = same[:, i] & free & (now[:, i] < 0)[:, None]
        (which,) = np.nonzero(able.any(axis=1))
        k = able[which].argmax(axis=1)
        now[which, i] = k
        free[which, k] = False
    return replace(batch, match=match), np.asarray((now >= 0).all(axis=1))


def _branched(batch: _Batch, n: int, d: int, column: int) -> _Batch:
    """The first open row of X with every open row of Y: E ∩ {⟨x_i − y_k, a⟩ = 0}, one dimension less."""
    now = batch.match[:, column]
    row = (now < 0).argmax(axis=1)
    which, k = np.nonzero(~(now[:, :, None] == np.arange(n)).any(axis=1))
    child, i = batch.take(which), row[which]
    child.match[np.arange(len(child)), column, i] = k
    r = child.basis.shape[1]
    u = np.take_along_axis(child.basis, (n * d + i)[:, None, None], axis=2)[..., 0]
    v = np.take_along_axis(child.basis, (n * d + n + k)[:, None, None], axis=2)[..., 0]
    functional = minus(u, v)  # [batch, r], not 0
    pivot = (functional != 0).argmax(axis=1)
    others = (pivot[:, None] + np.arange(1, r)) % r
    first = np.take_along_axis(child.basis, pivot[:, None, None], axis=1)
    rest = np.take_along_axis(child.basis, others[:, :, None], axis=1)
    at_pivot = np.take_along_axis(functional, pivot[:, None], axis=1)[:, :, None]
    at_others = np.take_along_axis(functional, others, axis=1)[:, :, None]
    return replace(child, basis=minus(times(rest, at_pivot), times(first, at_others)))


def _joined(waiting: dict[tuple[int, int], list[_Batch]], place: tuple[int, int]) -> _Batch:
    """Takes about BATCH subspaces from a place."""
    there, taken, size = waiting[place], [], 0
    while there and size < BATCH:
        taken.append(there.pop())
        size += len(taken[-1])
    if size > BATCH:
        there.append(taken[-1].take(slice(BATCH - size, None)))
        taken[-1] = taken[-1].take(slice(0, BATCH - size))
    if not there:
        del waiting[place]
    if len(taken) == 1:
        return taken[0]
    return _Batch(*(np.concatenate([getattr(batch, name) for batch in taken]) for name in ("basis", "source", "match")))


def pair_of(key: np.ndarray, match: np.ndarray, n: int) -> tuple[Matrix, Matrix]:
    """X, Y with n rows that collide under the permutations [D, rows]: further rows are 0."""
    pair = pair_under(rational(key), [list(enumerate(order.tolist())) for order in match])
    assert pair, "these permutations force no rows to be equal"
    zeros = [[Fraction(0)] * len(key)] * (n - match.shape[1])
    return pair[0] + zeros, pair[1] + zeros
