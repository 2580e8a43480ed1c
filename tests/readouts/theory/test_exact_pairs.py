from fractions import Fraction

import numpy as np
import sympy

from permlab.readouts.theory.exact_pairs import collides, colliding_pair, null_space, rational


def test_the_null_space_is_that_of_sympy() -> None:
    matrix = np.random.default_rng(0).integers(-2, 3, (4, 7))
    matrix[3] = matrix[0] - 2 * matrix[1]
    equations = [{place: Fraction(int(v)) for place, v in enumerate(row) if v} for row in matrix]
    basis = null_space(equations, 7)
    expected = sympy.Matrix(matrix).nullspace()
    assert len(basis) == len(expected) == 4
    assert sympy.Matrix(matrix) * sympy.Matrix(basis).T == sympy.zeros(4, 4)


def test_a_rounded_pair_leads_to_an_exact_one() -> None:
    """XA for A = [I | (1/3, 1)] in floats: the pair of Proposition 3.7 needs 3 · 0.333…, which is not 1."""
    key = np.array([[1.0, 0.0, 1 / 3], [0.0, 1.0, 1.0]])
    X = np.array([[3.0, -1.0], [-3.0, 0.0], [0.0, 1.0]])
    Y = np.array([[3.0, 0.0], [-3.0, 1.0], [0.0, -1.0]])
    pair = colliding_pair(key, X, Y)
    assert pair is not None and collides(rational(key), *pair)
    assert not collides(rational(key), rational(X), rational(Y))
    np.testing.assert_allclose(np.abs(np.array(pair[0], dtype=float)).max(), 1)


def test_permuted_rows_do_not_collide() -> None:
    X = rational(np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert not collides(rational(np.eye(2)), X, X[::-1])
    assert collides(rational(np.eye(2)), X, [[X[0][0], X[1][1]], [X[1][0], X[0][1]]])
    assert colliding_pair(np.array([[1.0]]), np.array([[1.0], [2.0]]), np.array([[2.0], [1.0]])) is None


def test_repeated_rows_count() -> None:
    """Both have the four corners of the unit square as rows; X has one diagonal twice, Y the other."""
    corners, rising, falling = [[0, 0], [1, 1], [0, 1], [1, 0]], [[0, 0], [1, 1]], [[0, 1], [1, 0]]
    X, Y = (rational(np.array(corners + diagonal, dtype=float)) for diagonal in (rising, falling))
    assert collides(rational(np.eye(2)), X, Y)
    assert not collides(rational(np.eye(2)), X, X[::-1])
