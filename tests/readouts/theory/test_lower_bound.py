"""Certified lower bounds on a₀ against formulas that are known exactly, against samples, and against universality."""

from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory import keys
from permlab.readouts.theory.distortion import extreme_ratios, rounded
from permlab.readouts.theory.lower_bound import columns_to_share, least_over_patterns, shared_columns
from permlab.readouts.theory.universality import check_universal

pytestmark = pytest.mark.usefixtures("one_thread")


def a0_of_two_rows(key: np.ndarray) -> float:
    """Two rows are their mean and ±half their difference: real phase retrieval, for which a₀² is known to be the
    minimum over S ⊂ [D] of λ_min(A_S A_Sᵀ) + λ_min(A_Sᶜ A_Sᶜᵀ) (Balan and Wang, 2015).
    """
    D = key.shape[1]

    def smallest(columns: tuple[int, ...]) -> float:
        return float(np.linalg.eigvalsh(key[:, columns] @ key[:, columns].T)[0])

    subsets = [S for size in range(D + 1) for S in combinations(range(D), size)]
    return min(smallest(S) + smallest(tuple(set(range(D)) - set(S))) for S in subsets) ** 0.5


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("d", "D"), [(2, 3), (2, 5), (3, 5)])
def test_two_rows_are_bounded_by_what_is_known_of_phase_retrieval(d: int, D: int, seed: int) -> None:
    key = rounded(keys.gaussian(d, D, seed), 2)
    exact, (smallest, _) = a0_of_two_rows(key), extreme_ratios(key, 2, seed, 1)
    least = least_over_patterns(key, 2, smallest)
    assert least.complete and shared_columns(key, 2) <= exact * (1 + 1e-9)
    assert 0.5 * exact < least.bound <= exact * (1 + 1e-9) <= smallest * (1 + 1e-8)


@pytest.mark.parametrize(("n", "d", "D"), [(2, 2, 2), (2, 2, 3), (2, 3, 4), (2, 3, 5), (3, 2, 3), (3, 2, 4), (3, 2, 5)])
def test_the_bound_is_positive_if_and_only_if_the_key_is_universal(n: int, d: int, D: int) -> None:
    rng = np.random.default_rng(n + d)
    for _ in range(12 if D < 5 else 4):
        key = rng.integers(-3, 4, (d, D)).astype(float)
        bound = least_over_patterns(key, n, above=10.0).bound
        assert (bound > 0) is (check_universal(key, n).universal is True), key


def test_columns_to_share() -> None:
    """Among (c−1)q + 1 columns every row is matched in c of them; for d = 2 fewer than 1 + n! from n = 3 on."""
    assert [columns_to_share(n) for n in (1, 2, 3, 4, 5, 6)] == [1, 2, 4, 6, 9, 12]


@settings(max_examples=60)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 10**6))
def test_some_permutation_shares_the_columns_with_every_row(n: int, c: int, seed: int) -> None:
    """Hall's theorem: for (c−1)q + 1 permutations, one more agrees with c of them in every place."""
    from scipy.optimize import linear_sum_assignment

    rng = np.random.default_rng(seed)
    few = [rng.permutation(n) for _ in range(1 + seed % 4)]
    chosen = [few[rng.integers(len(few))] for _ in range((c - 1) * columns_to_share(n) + 1)]
    counts = np.zeros((n, n), dtype=int)
    for order in chosen:
        counts[np.arange(n), order] += 1
    places = linear_sum_assignment(-(counts >= c).astype(int))
    assert (counts[places] >= c).all()


def test_one_column_less_is_not_enough() -> None:
    """n = 3, c = 2, D = 4: a sum of four permutations in which two rows are matched twice with the same column only."""
    counts = np.array([[2, 2, 0], [1, 1, 2], [1, 1, 2]])
    assert counts.sum(axis=0).tolist() == counts.sum(axis=1).tolist() == [4, 4, 4]
    assert not any(counts[range(3), order].min() >= 2 for order in permutations(range(3)))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_shared_columns_is_theorem_3_9_with_fewer_columns(n: int) -> None:
    enough = columns_to_share(n) + 1
    key = keys.full_spark(2, enough, seed=n).numpy()
    minors = [np.linalg.svd(key[:, J], compute_uv=False)[-1] for J in combinations(range(enough), 2)]
    assert shared_columns(key, n) == pytest.approx(min(minors), rel=1e-6)
    assert shared_columns(key[:, :-1], n) == 0
    smallest, largest = extreme_ratios(key, n, 0, 1)
    assert shared_columns(key, n) <= smallest <= largest <= np.linalg.norm(key, 2) * (1 + 1e-9)


def test_a_search_that_runs_out_of_time_keeps_what_its_first_columns_prove() -> None:
    key = rounded(keys.full_spark(2, 5, seed=1), 3)
    whole = least_over_patterns(key, 3, above=10.0)
    first = least_over_patterns(key, 3, above=10.0, seconds=-1)
    assert whole.complete and not first.complete and first.bound == 0 <= whole.bound


@pytest.mark.parametrize(
    ("key", "n", "message"),
    [(keys.gaussian(2, 4), 3, "short binary fractions"), (torch.ones(2, 4), 5, "n is 5")],
)
def test_what_cannot_be_bounded_is_refused(key: torch.Tensor, n: int, message: str) -> None:
    with pytest.raises(ReadoutError, match=message):
        least_over_patterns(key.numpy(), n, above=1.0)
