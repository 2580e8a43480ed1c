"""Certified lower bounds on a₀, the largest number with a₀ · d(X, Y) ≤ ‖β_A(X) − β_A(Y)‖ for all X, Y with n rows.

Sorting is the best matching of numbers, so ‖β_A(X) − β_A(Y)‖² = min over permutations P_1 … P_D of Σ_j ‖Xa_j −
P_jYa_j‖²: a minimum of finitely many quadratic forms, without any condition on the order of the rows. And d(X, Y)² ≤ ‖X
− ΠY‖² for every Π. So for one choice of P, with a Π that may depend on P,

    ‖β_A(X) − β_A(Y)‖² / d(X, Y)²  ≥  Σ_j ‖Xa_j − P_jYa_j‖² / ‖X − ΠY‖²  ≥  λ(P, Π)        wherever P attains the
    minimum,

λ the smallest value of the quotient over all X and X − ΠY ≠ 0: the square of a smallest singular value. Hence
a₀² ≥ min_P max_Π λ(P, Π); it is positive if and only if A is universal.

Two ways to bound it from below:

- `shared_columns`, for any n. Let C_ik count the columns in which P matches x_i with y_k; rows and columns of C sum to
  D. If D > (c−1)·⌊(n+1)²/4⌋, some Π has C_iΠ(i) ≥ c for all i: otherwise, by Hall's theorem, s rows have only t < s
  partners, and sD ≤ tD + s(n−t)(c−1), so D ≤ (c−1)·s(n−t)/(s−t), which is largest for t = s−1 and s = ⌈n/2⌉. Each pair
  of rows that Π matches shares c columns J, and ‖(x − y)A[J]‖ ≥ s_d(A[J])·‖x − y‖. So a₀ ≥ min over |J| = c of
  s_d(A[J]).
- `least_over_patterns`, for few rows and columns: λ(P, Π) itself, by branch and bound. Further columns only add
  squares.

Rounding. λ(P, Π) = σ_min(V − proj V)², where the residual is V·(X − ΠY) + W·X and proj projects onto the range of W.
The rank of W is computed exactly (`modular`, as in `exact_search`): the key's entries must be multiples of a power of
two. The singular values and the projection come from LAPACK, which is backward stable, so they are those of matrices
within k·ε·‖·‖, k a modest multiple of the size; with r = rank W, the projection moves by at most 2kε‖W‖/σ_r(W) (Wedin).
From every singular value 1000·ε·(1 + ‖W‖/σ_r(W))·‖V‖ is subtracted, far more than that.
"""

from dataclasses import dataclass
from itertools import permutations
from math import comb, sqrt
from time import monotonic

import numpy as np

from permlab.readouts.checks import check_size
from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory.exact_search import roots
from permlab.readouts.theory.modular import P, rank, residues
from permlab.readouts.theory.spark import MAX_MINORS, smallest_value

SAFETY = 1000 * float(np.finfo(float).eps)
MOST_ROWS = 4  # of least_over_patterns
BLOCK = 2000  # choices of permutations handled at once


def columns_to_share(n: int) -> int:
    """q = ⌊(n+1)²/4⌋: among (c−1)q + 1 columns a permutation matches every row in c of them. Full spark keys with
    (d−1)q + 1 columns satisfy a₀ ≥ min over |J| = d of s_d(A[J]), which Theorem 3.9 proves for 1 + (d−1)·n! columns.
    """
    return (n + 1) ** 2 // 4


def shared_columns(key: np.ndarray, n: int) -> float:
    """A lower bound on a₀; 0 if there are too few columns, or too many subsets of them."""
    d, D = key.shape
    c = 1 + (D - 1) // columns_to_share(n)
    if c < d or comb(D, c) > MAX_MINORS:
        return 0.0
    return max(0.0, smallest_value(key, c) - SAFETY * float(np.linalg.norm(key)))


@dataclass(frozen=True)
class LeastValue:
    """The smallest √λ over all choices of permutations; those of the first columns only if time ran out."""

    bound: float  # a₀ is at least this
    patterns: int  # choices of permutations, partial ones included
    complete: bool


def least_over_patterns(key: np.ndarray, n: int, above: float, seconds: float = float("inf")) -> LeastValue:
    """min(above, √min_P max_Π λ(P, Π)) less rounding, where `above` is known to be at least a₀: a ratio that was found.

    Partial choices P_1 … P_c are kept while max_Π λ is below `above`². Columns that are far apart come first: the first
    ones bound a₀ on their own.
    """
    d, D = key.shape
    key, reached = key[:, _far_apart(key)], 0.0
    check_size("n", n, most=MOST_ROWS)
    whole, deadline, visited = _integers(key, n), monotonic() + seconds, 0
    orders = np.array(list(permutations(range(n))))
    chosen = np.array(list(roots(n, min(d, D))), dtype=np.int64)  # [patterns, columns, n]
    for columns in range(d, D + 1):
        if columns > d:
            chosen = np.concatenate(
                [chosen.repeat(len(orders), axis=0), np.tile(orders, (len(chosen), 1))[:, None]], axis=1
            )
        visited += len(chosen)
        kept, least = [], above
        for start in range(0, len(chosen), BLOCK):
            if monotonic() > deadline:
                return LeastValue(reached, visited, complete=False)
            block = chosen[start : start + BLOCK]
            bound = _largest(key[:, :columns], whole[:, :columns], block, orders, above)
            kept.append(block[bound < above])
            least = min(least, float(bound.min()))
        chosen, reached = np.concatenate(kept), max(0.0, least)
        if not len(chosen):
            return LeastValue(above, visited, complete=True)
    return LeastValue(reached, visited, complete=True)


def _far_apart(key: np.ndarray) -> list[int]:
    """The columns in an order in which each next one is far from those before it."""
    unit = key / np.maximum(np.linalg.norm(key, axis=0), 1e-300)
    near, order = np.abs(unit.T @ unit), [int(np.linalg.norm(key, axis=0).argmax())]
    while len(order) < key.shape[1]:
        rest = [j for j in range(key.shape[1]) if j not in order]
        order.append(min(rest, key=lambda j: float(near[j, order].max())))
    return order


def _largest(key: np.ndarray, whole: np.ndarray, chosen: np.ndarray, orders: np.ndarray, enough: float) -> np.ndarray:
    """√max_Π λ(P, Π) of every P, [patterns]; Π that agree with P in most places first, until `enough` is reached."""
    agree = (chosen[:, None] == orders[:, None]).sum(axis=(2, 3))  # [patterns, n!]
    ranking = np.argsort(-agree, axis=1, kind="stable")
    best = np.zeros(len(chosen))
    for place in range(len(orders)):
        open_ = np.flatnonzero(best < enough)
        if not len(open_):
            break
        partners = orders[ranking[open_, place]].argsort(axis=1)  # Π⁻¹
        moved = np.take_along_axis(partners[:, None], chosen[open_], axis=2)
        best[open_] = np.maximum(best[open_], _smallest(key, whole, moved))
    return best


def _smallest(key: np.ndarray, whole: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """√λ less rounding: in column j row i meets row q = moved[p, j, i] of X − V: residual ⟨x_i − x_q + v_q, a_j⟩."""
    count, D, n = moved.shape
    d = len(key)
    unit = np.eye(n)
    far = unit[moved]  # [p, D, n, n]
    V = np.einsum("pjik,dj->pjikd", far, key).reshape(count, D * n, n * d)
    near = (unit - far)[..., : n - 1]  # constants are in every null space: x_n = 0
    W = np.einsum("pjik,dj->pjikd", near, key).reshape(count, D * n, (n - 1) * d)
    exact = np.einsum("pjik,dj->pjikd", near.astype(np.int64), whole).reshape(count, D * n, (n - 1) * d)
    ranks = rank(residues(exact))
    left, values, _ = np.linalg.svd(W, full_matrices=False)
    inside = left * (np.arange(values.shape[1]) < ranks[:, None])[:, None]
    outside = V - inside @ (inside.transpose(0, 2, 1) @ V)
    smallest = np.linalg.svd(outside, compute_uv=False)[:, -1]
    least = np.where(ranks > 0, np.take_along_axis(values, np.maximum(ranks - 1, 0)[:, None], axis=1)[:, 0], 1.0)
    size = np.linalg.norm(V, axis=(1, 2))
    return np.maximum(0.0, smallest - SAFETY * size * (1 + values.max(axis=1, initial=0.0) / least))


def _integers(key: np.ndarray, n: int) -> np.ndarray:
    """The key times a power of two, if that makes its minors integers below P."""
    d = len(key)
    for power in range(31):
        whole = key * 2.0**power
        if (whole == np.rint(whole)).all():
            longest = max(1.0, float(np.linalg.norm(whole, axis=0).max()))
            if (sqrt(2) * longest) ** ((n - 1) * d) < P:
                return whole.astype(np.int64)
            break
    raise ReadoutError(f"the key is not of short binary fractions, as exact ranks for n = {n} need: round it first")
