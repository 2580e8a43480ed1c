"""γ_{A,B}: the decision, and the search for collisions, in exact arithmetic."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
import torch

from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory import pairs
from permlab.readouts.theory.exact_pairs import rational
from permlab.readouts.theory.weighted import all_orders, collides, decide, embedded, orders_of, search, sign_vectors


def weights(n: int, d: int, m: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(-20, 21, (d, m)), rng.integers(-20, 21, (n, m))


def test_the_formula() -> None:
    rng = np.random.default_rng(0)
    A, B, X = rng.integers(-5, 6, (2, 4)), rng.integers(-5, 6, (3, 4)), rng.integers(-5, 6, (3, 2))
    expected = (B * -np.sort(-(X @ A), axis=0)).sum(axis=0)
    assert embedded(rational(X), rational(A), rational(B)) == [Fraction(int(v)) for v in expected]


@pytest.mark.parametrize(("n", "d"), [(2, 2), (2, 3)])
def test_two_nd_minus_d_numbers_are_injective(n: int, d: int) -> None:
    found = decide(*weights(n, d, 2 * n * d - d))
    assert found.injective is True and found.degenerate > 0


@pytest.mark.parametrize(("n", "d", "m"), [(2, 2, 4), (2, 3, 7), (3, 2, 5), (3, 2, 6), (4, 2, 6), (3, 3, 8)])
def test_fewer_numbers_collide_exactly(n: int, d: int, m: int) -> None:
    A, B = weights(n, d, m)
    X, Y = pairs.independent(300, n, d, torch.Generator().manual_seed(0))
    found = search(A, B, X.numpy(), Y.numpy())
    assert found.injective is False
    assert found.pair and collides(rational(A), rational(B), *found.pair)
    images = [np.array(side, dtype=float) @ A for side in found.pair]
    np.testing.assert_allclose(*((B * -np.sort(-image, axis=0)).sum(axis=0) for image in images), atol=1e-9)


@pytest.mark.parametrize(("n", "d"), [(3, 2), (4, 2), (3, 3)])
def test_no_collision_is_found_with_two_nd_minus_d_numbers(n: int, d: int) -> None:
    X, Y = (side.numpy() for side in pairs.draw(240, n, d, seed=0))
    found = search(*weights(n, d, 2 * n * d - d), X, Y)
    assert found.pair is None and found.pairs >= 240


@pytest.mark.parametrize(("d", "m"), [(2, 4), (3, 5)])
def test_sign_vectors_are_those_of_vectors(d: int, m: int) -> None:
    """As many as m planes in general position have regions, 2 Σ_{i<d} C(m−1, i); random vectors' are among them."""
    A = weights(2, d, m)[0]
    signs = {tuple(row) for row in sign_vectors(A).tolist()}
    assert len(signs) == 2 * sum(comb(m - 1, i) for i in range(d))
    assert {tuple(row) for row in (np.random.default_rng(0).standard_normal((2000, d)) @ A > 0).tolist()} <= signs


def test_all_orders_hold_those_of_random_matrices() -> None:
    A = weights(3, 2, 4)[0]
    known = {order.tobytes() for order in all_orders(A, 3)}
    for X in np.random.default_rng(1).standard_normal((500, 3, 2)):
        X = X[np.argsort(-(X @ A)[:, 0])]
        assert orders_of((X @ A)[None])[0].tobytes() in known


def test_orders() -> None:
    image = np.array([[[5.0, 1.0], [7.0, 0.0], [6.0, 2.0]]])
    assert orders_of(image).tolist() == [[[2, 0, 1], [1, 2, 0]]]


def test_what_is_too_large_or_degenerate_is_refused() -> None:
    with pytest.raises(ReadoutError, match="pairs of orders are too many"):
        decide(*weights(4, 2, 14))
    with pytest.raises(ReadoutError, match="not full spark: see its columns 0"):
        sign_vectors(np.array([[1, 2, 0], [1, 2, 1]]))
