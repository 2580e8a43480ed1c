"""check_universal against a naive enumeration of Proposition 3.8, and Propositions 3.5 to 3.7."""

from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from permlab.readouts.errors import ReadoutError
from permlab.readouts.sorting import beta
from permlab.readouts.theory import keys
from permlab.readouts.theory.keys import check_universal
from permlab.readouts.theory.metric import quotient_distance
from permlab.readouts.theory.universality import Universality


def naive(A: np.ndarray, n: int) -> bool:
    """All choices of permutations, one linear system each, ranks of the full matrices: nothing is pruned."""
    d = len(A)
    matrices = [np.eye(n)[list(order)] for order in permutations(range(n))]
    same = [np.hstack([-np.kron(P, np.eye(d)), np.eye(n * d)]) for P in matrices]  # Y − ΠX = 0, row by row
    projected = [[np.hstack([-np.kron(P, a), np.kron(np.eye(n), a)]) for P in matrices] for a in A.T]  # Ya − ΠXa = 0
    for choice in product(projected[0][:1], *projected[1:]):
        system = np.vstack(choice)
        rank = np.linalg.matrix_rank(system)
        if all(np.linalg.matrix_rank(np.vstack([system, F])) > rank for F in same):
            return False
    return True


def confirm(result: Universality, A: np.ndarray | torch.Tensor) -> None:
    """The pair collides: its rounded form nearly, its exact form to the last digit."""
    assert result.universal is False
    np.testing.assert_allclose(beta(result.X, A), beta(result.Y, A), atol=1e-9)
    assert quotient_distance(result.X, result.Y) > 1e-4
    X, Y = (np.array(matrix, dtype=object) for matrix in result.exact)
    key = np.array([[Fraction(value) for value in row] for row in A.tolist()], dtype=object)
    assert np.array_equal(np.sort(X @ key, axis=0), np.sort(Y @ key, axis=0))
    assert sorted(X.tolist()) != sorted(Y.tolist())
    np.testing.assert_allclose(result.X, X.astype(float))


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize(("n", "d", "D"), [(2, 2, 2), (2, 2, 3), (2, 2, 4), (2, 3, 4), (2, 3, 5), (3, 2, 3), (3, 2, 4)])
def test_it_agrees_with_the_naive_enumeration(n: int, d: int, D: int, seed: int) -> None:
    A = np.random.default_rng(seed).integers(-2, 3, (d, D)).astype(float)  # small integers: often degenerate
    result = check_universal(A, n)
    assert result.universal == naive(A, n)
    if not result.universal:
        confirm(result, A)


@pytest.mark.parametrize("D", [3, 4])
def test_it_agrees_with_the_naive_enumeration_on_generic_keys(D: int) -> None:
    A = keys.full_spark(2, D, seed=4)
    assert check_universal(A, 3).universal == naive(A.numpy(), 3) == (D == 4)


def test_the_key_of_section_4_is_not_universal_for_three_rows() -> None:
    A = keys.identity_plus_ones(2)
    result = check_universal(A, 3)
    confirm(result, A)
    assert set(result.X.flatten().tolist()) == {-1.0, 0.0, 1.0}  # a pair that can be read


def beside_an_idle_column(A: torch.Tensor) -> torch.Tensor:
    """[A | 0]: separates what A separates, but is not full spark, so that the search has to decide."""
    return torch.cat([A, torch.zeros(len(A), 1, dtype=A.dtype)], dim=1)


@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 2), (2, 3), (3, 3)])
@pytest.mark.parametrize("seed", [0, 1])
def test_theorem_3_9_full_spark_keys_are_universal(n: int, d: int, seed: int) -> None:
    A = keys.full_spark(d, keys.universal_size(d, n), seed)
    assert check_universal(A, n).universal is True
    result = check_universal(beside_an_idle_column(A), n)
    assert result.universal is True
    assert result.visited > 1
    assert result.gap[0] < 1e-11 < 1e-7 < result.gap[1]


@pytest.mark.parametrize(("n", "d"), [(1, 3), (2, 3), (3, 2), (3, 3), (4, 2)])
def test_the_search_proves_what_the_pigeonhole_argument_says(n: int, d: int) -> None:
    A = keys.full_spark(d, n * (d - 1) + 1)
    at_once, searched = check_universal(A, n), check_universal(beside_an_idle_column(A), n)
    assert at_once.universal is searched.universal is True
    assert at_once.visited == 0 < searched.visited


def test_the_pigeonhole_argument_knows_no_largest_n() -> None:
    assert check_universal(keys.full_spark(3, 41), 20).universal is True
    with pytest.raises(ReadoutError, match="n is 20.*1 ≤ n ≤ 6"):
        check_universal(keys.full_spark(3, 40), 20)


def nearly_degenerate(epsilon: float) -> torch.Tensor:
    return torch.tensor([[1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, -1.0 + epsilon]], dtype=torch.float64)


@pytest.mark.parametrize("epsilon", [1e-10, 1e-11, 1e-13])
def test_a_key_is_not_refuted_by_rounding(epsilon: float) -> None:
    """Universal for ε ≠ 0, not for ε = 0."""
    result = check_universal(nearly_degenerate(epsilon), 4)
    assert result.universal is None and result.X is None and "rational arithmetic" in result.reason
    confirm(check_universal(nearly_degenerate(0), 4), nearly_degenerate(0))


def test_rank_is_not_a_matter_of_rounding() -> None:
    A = torch.tensor([[1.0, 1.0], [1.0, 1.0 + 2**-52]], dtype=torch.float64)
    assert check_universal(A, 1).universal is None
    assert check_universal(torch.ones(2, 2), 1).universal is False


@pytest.mark.parametrize("d", [2, 3, 4])
def test_two_rows_are_real_phase_retrieval(d: int) -> None:
    """For n = 2, ↓(Xa) gives the sum and the distance of two numbers: 2d − 1 generic columns are needed and enough."""
    assert check_universal(keys.full_spark(d, 2 * d - 1), 2).universal is True
    assert check_universal(keys.full_spark(d, 2 * d - 2), 2).universal is False


@settings(max_examples=20)
@given(st.integers(2, 3), st.integers(2, 3), st.integers(0, 1000))
def test_proposition_3_5_transformations_keep_the_verdict(n: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.integers(-2, 3, (d, d + 1 + seed % 2)).astype(float)
    T = np.tril(rng.integers(-2, 3, (d, d)), -1) + np.diag(rng.choice([-2.0, -1.0, 1.0, 4.0], d))  # nothing is rounded
    L = np.eye(A.shape[1])[rng.permutation(A.shape[1])]
    scales = np.diag(rng.choice([-1, 1], A.shape[1]) * rng.choice([0.5, 1, 3], A.shape[1]))
    assert check_universal(T @ A @ L @ scales, n).universal == check_universal(A, n).universal


@settings(max_examples=30)
@given(st.integers(2, 5), st.integers(2, 4), st.integers(0, 1000))
def test_proposition_3_5_separation_moves_with_the_key(n: int, d: int, seed: int) -> None:
    """β_{TA}(XT⁻¹) = β_A(X): whatever A confuses at X, TA confuses at XT⁻¹."""
    rng = np.random.default_rng(seed)
    X, A, T = rng.standard_normal((n, d)), rng.standard_normal((d, d + 2)), rng.standard_normal((d, d))
    np.testing.assert_allclose(beta(X @ np.linalg.inv(T), T @ A), beta(X, A), atol=1e-6 * np.linalg.cond(T))


@settings(max_examples=30)
@given(st.integers(2, 5), st.integers(2, 4), st.integers(0, 1000))
def test_proposition_3_6_square_keys_never_suffice(n: int, d: int, seed: int) -> None:
    """Swap two entries of one column of XA: a matrix that A does not tell from X, for almost every X."""
    rng = np.random.default_rng(seed)
    X, A = rng.standard_normal((n, d)), rng.standard_normal((d, d))
    image = X @ A
    image[[0, 1], 0] = image[[1, 0], 0]
    Y = image @ np.linalg.inv(A)
    np.testing.assert_allclose(beta(X, A), beta(Y, A), atol=1e-6 * np.linalg.cond(A))
    assert quotient_distance(X, Y) > 1e-6
    if n <= 3:
        assert check_universal(A, n).universal is False


@settings(max_examples=30)
@given(st.integers(3, 6), st.lists(st.floats(0.1, 10).map(lambda v: v if v > 1 else -v), min_size=2, max_size=4))
def test_proposition_3_7_the_explicit_counterexample(n: int, a: list[float]) -> None:
    X, Y = torch.zeros(2, n, len(a), dtype=torch.float64)
    X[0, 0] = Y[0, 0] = 1 / a[0]
    X[1, 0] = Y[1, 0] = -1 / a[0]
    X[0, 1] = Y[2, 1] = -1 / a[1]
    X[2, 1] = Y[1, 1] = 1 / a[1]
    A = keys.identity_plus(a)
    np.testing.assert_allclose(beta(X, A), beta(Y, A), atol=1e-12)
    assert quotient_distance(X, Y) > 0.01
    if n == 3 and len(a) == 2:
        confirm(check_universal(A, 3), A)


def test_a_key_of_low_rank_confuses_a_row_with_zero() -> None:
    A = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])
    for n in (1, 3):
        confirm(check_universal(A, n), A)


def test_simple_keys_of_few_rows() -> None:
    assert check_universal(torch.eye(3), 1).universal is True
    assert check_universal([[2.0]], 5).universal is True
    assert check_universal([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0]], 2).universal is True  # a zero column is idle


def test_fewer_columns_than_rows_is_a_verdict_not_an_error() -> None:
    assert check_universal(torch.eye(3)[:, :2], 2).universal is False


def test_a_search_that_ran_out_of_budget_says_so() -> None:
    seen: list[int] = []
    result = check_universal(keys.full_spark(3, 6), 3, budget=300, progress=seen.append)
    assert result.universal is None and not result.decided
    assert "300 subspaces" in result.reason and result.visited == 300
    assert seen == [256]
    out_of_time = check_universal(keys.full_spark(3, 6), 3, seconds=-1)
    assert out_of_time.universal is None and out_of_time.visited == 0


def test_ranks_too_close_to_call_are_admitted() -> None:
    result = check_universal(nearly_degenerate(1e-8), 4)
    assert result.universal is None and "too close" in result.reason


@pytest.mark.parametrize(
    ("n", "d", "message"), [(0, 2, "n is 0"), (8, 2, "n is 8.*1 ≤ n ≤ 6, or 7"), (6, 9, "at most 5 for n = 6")]
)
def test_sizes_out_of_reach_are_refused(n: int, d: int, message: str) -> None:
    with pytest.raises(ReadoutError, match=message):
        check_universal(keys.identity_plus_ones(d), n)


def test_many_columns_do_not_need_much_memory() -> None:
    assert check_universal(keys.identity_plus_ones(12), 3).universal is False  # 3 · 6¹⁰ roots, taken one by one
    assert check_universal(keys.full_spark(12, 40), 3, budget=50).universal is None
