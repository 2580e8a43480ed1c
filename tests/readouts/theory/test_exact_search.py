"""The exact decision against the search in floats, and against the naive enumeration of test_universality."""

from itertools import permutations, product

import numpy as np
import pytest

from permlab.readouts.theory.exact_pairs import collides, rational
from permlab.readouts.theory.exact_search import (
    decide,
    decide_generic,
    exact_enough,
    largest_entry,
    roots,
    standard_form,
)
from permlab.readouts.theory.keys import full_spark
from permlab.readouts.theory.least import integer_key, is_full_spark_exactly
from permlab.readouts.theory.universality import check_universal, search_in_floats

SIZES = [(2, 2, 3), (2, 3, 4), (2, 3, 5), (2, 4, 7), (3, 2, 3), (3, 2, 4), (4, 2, 3), (4, 2, 4), (3, 3, 5), (3, 3, 6)]


def full_rank_keys(d: int, D: int, count: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    keys: list[np.ndarray] = []
    while len(keys) < count:
        key = rng.integers(-3, 4, (d, D)).astype(float)  # small integers: often degenerate
        if np.linalg.matrix_rank(key) == d:
            keys.append(key)
    return keys


@pytest.mark.parametrize(("n", "d", "D"), SIZES)
def test_two_implementations_agree_on_25_random_keys_of_each_size(n: int, d: int, D: int) -> None:
    for key in full_rank_keys(d, D, 25, seed=n):
        found = decide(key, n)
        assert found.universal is search_in_floats(key, n).universal, key
        if found.pair:
            assert len(found.pair[0]) == n and collides(rational(key), *found.pair)


@pytest.mark.parametrize(("n", "D"), [(2, 3), (3, 4), (4, 4), (5, 5)])
def test_generic_keys_of_two_columns(n: int, D: int) -> None:
    assert decide(integer_key(n, 2, D), n).universal is True
    assert decide(integer_key(n, 2, D - 1), n).universal is False


@pytest.mark.parametrize("ratio", [-1, 2, 0.5])
def test_full_spark_is_not_enough_below_the_bound(ratio: float) -> None:
    """n = 4, D = 4: the cross-ratio of the four directions decides; n(d−1) + 1 = 5 columns would be enough."""
    key = np.array([[2.0, 0, 2, 2], [0, 2, 2, 2 * ratio]])
    assert check_universal(key, 4).universal is False
    assert check_universal(key + np.array([[0, 0, 0, 0], [0, 0, 0, 5]]), 4).universal is True  # another cross-ratio
    assert check_universal(np.column_stack([key, [1, 7]]), 4).universal is True


def test_parts_of_a_proof_make_the_whole() -> None:
    key = integer_key(3, 3, 6)
    parts = [decide(key, 3, part=(k, 4)) for k in range(4)]
    whole = decide(key, 3)
    assert all(part.universal for part in parts) and whole.universal
    assert sum(part.visited for part in parts) == whole.visited
    refuted = [decide(key[:, :5], 3, part=(k, 4)).universal for k in range(4)]
    assert False in refuted and None not in refuted


def test_a_budget_and_a_deadline_end_the_search() -> None:
    key, seen = integer_key(4, 3, 7), list[int]()
    found = decide(key, 4, budget=3000, progress=seen.append)
    assert found.universal is None and found.visited >= 3000 and seen
    assert decide(key, 4, seconds=-1).universal is None


@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 2), (3, 3), (4, 2)])
def test_roots_are_one_of_each_orbit(n: int, d: int) -> None:
    """Burnside counts the orbits of Sₙ on (d−1)-tuples under conjugation."""
    orders = [tuple(order) for order in permutations(range(n))]

    def commute(g: tuple[int, ...], h: tuple[int, ...]) -> bool:
        return all(g[h[i]] == h[g[i]] for i in range(n))

    orbits = sum(all(commute(g, h) for h in tuple_) for g in orders for tuple_ in product(orders, repeat=d - 1)) / len(
        orders
    )
    found = [root.tolist() for root in roots(n, d)]
    assert len(found) == orbits
    assert all(root[0] == list(range(n)) for root in found)


def test_the_standard_form_is_the_key_up_to_a_matrix_and_lengths() -> None:
    key = np.array([[0.0, 2, 4, 1], [0, 1, 2, 1]])
    form, order = standard_form(key)
    assert order == [1, 3, 0, 2] and form.tolist() == [[1, 0, 0, 1], [0, 1, 0, 0]]


def test_which_keys_are_exact() -> None:
    assert exact_enough(np.array([[1.0, 0, 1], [0, 1, 1]]), 7)
    assert not exact_enough(full_spark(2, 4).numpy(), 3)  # not integers
    assert not exact_enough(np.array([[1.0, 1], [1, 1]]), 2)  # rank 1
    assert not exact_enough(np.array([[1.0, 0, 10**6], [0, 1, 10**6 + 1]]), 5)  # minors may reach 2⁶¹
    K = largest_entry(4, 3)
    assert exact_enough(np.array([[1.0, 0, 0, K], [0, 1, 0, K], [0, 0, 1, K - 1]]), 4)
    assert not exact_enough(np.array([[1.0, 0, 0, 2 * K], [0, 1, 0, 2 * K], [0, 0, 1, 2 * K - 1]]), 4)


def test_exact_verdicts_say_so() -> None:
    assert check_universal(integer_key(4, 2, 4), 4).rounded is False
    assert check_universal(full_spark(2, 4), 4).rounded is True


@pytest.mark.parametrize(("n", "d", "D"), [(2, 3, 5), (3, 2, 4), (4, 2, 4), (5, 2, 5), (3, 3, 6)])
def test_generic_keys_are_like_large_integers_and_not_like_small_ones(n: int, d: int, D: int) -> None:
    """Proofs of the same size; but [I | Ã] with entries −2 … 2 is never universal for n = d = 3, D = 6."""
    generic = decide_generic(n, d, D)
    assert generic == decide(integer_key(n, d, D), n) and generic.universal is True
    assert decide_generic(n, d, D - 1).universal is False
    if (n, d) == (3, 3):
        special = np.array([[1.0, 0, 0, 2, 2, -1], [0, 1, 0, 1, 2, 1], [0, 0, 1, 2, 1, 1]])
        assert is_full_spark_exactly(special) and decide(special, 3).universal is False
