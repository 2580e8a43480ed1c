"""Pairs with β_A(X) = β_A(Y) and X ≁ Y in rational arithmetic, with the key's floats taken as exact values.

A choice of permutations Π_j makes Y a_j = Π_j X a_j a linear system with rational solutions: it is solved exactly, and
every comparison is exact. A matrix is a list of rows of fractions.
"""

from fractions import Fraction
from itertools import islice, product

import numpy as np

from permlab.readouts.theory.metric import quotient_distance

Matrix = list[list[Fraction]]
Equation = dict[int, Fraction]  # unknown: its coefficient, not 0; the sum is 0
Match = list[tuple[int, int]]  # a row of X, and the row of Y that it meets in one column


def colliding_pair(key: np.ndarray, X: np.ndarray, Y: np.ndarray) -> tuple[Matrix, Matrix] | None:
    """From float X, Y [n, d] with β_A(X) ≈ β_A(Y): a pair that collides exactly under their permutations, if any."""
    orders = zip((X @ key).argsort(axis=0).T.tolist(), (Y @ key).argsort(axis=0).T.tolist(), strict=True)
    return pair_under(rational(key), [list(zip(x, y, strict=True)) for x, y in orders])


def pair_under(A: Matrix, matches: list[Match]) -> tuple[Matrix, Matrix] | None:
    """X, Y [n, d] that collide exactly, where `matches` pairs the rows of X and Y for every column of A; if any."""
    n, d = len(matches[0]), len(A)
    basis = null_space(_equations(A, matches), 2 * n * d)
    if not basis:
        return None
    weights = _clearest(np.array(basis, dtype=float).reshape(-1, 2, n, d))
    used = [(weight, vector) for weight, vector in zip(weights, basis, strict=True) if weight]
    entries = [sum((weight * vector[i] for weight, vector in used), Fraction(0)) for i in range(2 * n * d)]
    largest = max(map(abs, entries)) or 1
    rows = [[entry / largest for entry in entries[start : start + d]] for start in range(0, 2 * n * d, d)]
    return (rows[:n], rows[n:]) if collides(A, rows[:n], rows[n:]) else None


def collides(A: Matrix, X: Matrix, Y: Matrix) -> bool:
    """Is β_A(X) = β_A(Y), while Y is not X with its rows permuted?"""
    columns = list(zip(*A, strict=True))

    def image(rows: Matrix) -> list[list[Fraction]]:
        return [sorted(sum(x * a for x, a in zip(row, column, strict=True)) for row in rows) for column in columns]

    return sorted(X) != sorted(Y) and image(X) == image(Y)


def rational(matrix: np.ndarray) -> Matrix:
    return [[Fraction(value) for value in row] for row in matrix.tolist()]


def echelon_form(matrix: Matrix) -> tuple[Matrix, list[int]]:
    """The reduced echelon form and its pivots."""
    rows, pivots = [list(row) for row in matrix], list[int]()
    for column in range(len(rows[0])):
        done = len(pivots)
        place = next((i for i in range(done, len(rows)) if rows[i][column]), None)
        if place is None:
            continue
        rows[done], rows[place] = rows[place], rows[done]
        rows[done] = [entry / rows[done][column] for entry in rows[done]]
        for i, row in enumerate(rows):
            if i != done and row[column]:
                rows[i] = [entry - row[column] * pivot for entry, pivot in zip(row, rows[done], strict=True)]
        pivots.append(column)
    return rows[: len(pivots)], pivots


def determinant(matrix: Matrix) -> Fraction:
    """By elimination. 1 for a matrix without rows."""
    rows, value = [list(row) for row in matrix], Fraction(1)
    while rows:
        place = next((i for i, row in enumerate(rows) if row[0]), None)
        if place is None:
            return Fraction(0)
        pivot = rows.pop(place)
        value *= pivot[0] * (-1) ** place
        rows = [[b - row[0] / pivot[0] * a for a, b in zip(pivot[1:], row[1:], strict=True)] for row in rows]
    return value


def null_space(equations: list[Equation], unknowns: int) -> Matrix:
    """A basis of the solutions, by reduced echelon form: in each, one free unknown is 1 and the others are 0."""
    solved: dict[int, Equation] = {}  # unknown: the equation that expresses it by the others
    for equation in equations:
        left = _substituted(equation, solved)
        if left:
            pivot = min(left)
            scale = -left.pop(pivot)
            right = {unknown: coefficient / scale for unknown, coefficient in left.items()}
            solved = {unknown: _substituted(others, {pivot: right}) for unknown, others in solved.items()}
            solved[pivot] = right
    free = [unknown for unknown in range(unknowns) if unknown not in solved]
    one, zero = Fraction(1), Fraction(0)
    return [
        [solved[i].get(place, zero) if i in solved else (one if i == place else zero) for i in range(unknowns)]
        for place in free
    ]


def _substituted(equation: Equation, solved: dict[int, Equation]) -> Equation:
    """The equation in unknowns that are not solved for."""
    total: Equation = {}
    for unknown, coefficient in equation.items():
        for other, part in solved.get(unknown, {unknown: Fraction(1)}).items():
            total[other] = total.get(other, Fraction(0)) + coefficient * part
    return {unknown: coefficient for unknown, coefficient in total.items() if coefficient}


def _equations(A: Matrix, matches: list[Match]) -> list[Equation]:
    """⟨y, a_j⟩ = ⟨x, a_j⟩ for the rows that meet in column j, and column sums 0.

    The entries of X are the unknowns 0 … nd − 1, row by row, those of Y the next.
    """
    n, d = len(matches[0]), len(A)
    equations = [{i * d + k: Fraction(1) for i in range(n)} for k in range(d)]
    for j, match in enumerate(matches):
        column = [(k, row[j]) for k, row in enumerate(A) if row[j]]
        for x, y in match:
            left = {(n + y) * d + k: a for k, a in column}
            equations.append(left | {x * d + k: -a for k, a in column})
    return equations


def _clearest(basis: np.ndarray) -> list[int]:
    """Candidate weights of the basis vectors [r, 2, n, d], so that X and Y are far apart for their size; simple ones
    first. Random ones follow because only almost every pair of a subspace has X ≁ Y.
    """
    r = len(basis)
    simple = np.array(list(islice(product((0, 1, -1), repeat=r), 1, 2000)))
    weights = np.concatenate([simple, np.random.default_rng(0).integers(-9, 10, (64, r))])
    pairs = np.tensordot(weights, basis, axes=1)
    size = np.linalg.norm(pairs.reshape(len(pairs), -1), axis=1)
    apart = np.array([quotient_distance(x, y) for x, y in pairs]) / np.where(size > 0, size, 1)
    chosen: list[int] = weights[np.argmax(apart > 0.75 * apart.max())].tolist()
    return chosen
