"""β_A against NumPy, and section 3's inequalities on random pairs."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from permlab.readouts.errors import ReadoutError
from permlab.readouts.sorting import Ordering, ReducedOrdering, beta
from permlab.readouts.theory import keys
from permlab.readouts.theory.lower_bound import shared_columns
from permlab.readouts.theory.metric import quotient_distances


def pairs(count: int, n: int, d: int, seed: int = 0) -> torch.Tensor:
    """[2, count, n, d]: every second pair is close up to a permutation of rows."""
    generator = torch.Generator().manual_seed(seed)
    X, Y = torch.randn(2, count, n, d, generator=generator, dtype=torch.float64)
    near = X.flip(1) + Y * torch.logspace(-6, 0, count, dtype=torch.float64)[:, None, None]
    return torch.stack([X, torch.where((torch.arange(count) % 2 == 0)[:, None, None], Y, near)])


@settings(max_examples=50)
@given(st.integers(1, 7), st.integers(1, 4), st.integers(0, 5), st.integers(0, 10**6))
def test_beta_is_numpys_column_sort(n: int, d: int, more: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, A = rng.standard_normal((n, d)), rng.standard_normal((d, d + more))
    np.testing.assert_allclose(beta(X, A), np.sort(X @ A, axis=0)[::-1], atol=1e-12)


def test_ordering_is_beta_padded() -> None:
    X, A = torch.randn(3, 2, dtype=torch.float64), keys.full_spark(2, 5)
    padded = torch.cat([beta(X, A), torch.zeros(4, 5)])
    torch.testing.assert_close(Ordering(2, 7, key=A)(X)[0], padded.flatten())
    torch.testing.assert_close(Ordering(2, 3)(X)[0], beta(X, keys.identity_plus_ones(2)).flatten())


def test_one_column_is_an_isometry() -> None:
    X, Y = pairs(200, 5, 1)
    images = [Ordering(1, 5, key=[[1.0]])(Z.reshape(-1, 1), ptr=torch.arange(0, 1001, 5)) for Z in (X, Y)]
    np.testing.assert_allclose((images[0] - images[1]).norm(dim=1), quotient_distances(X, Y), atol=1e-12)


@pytest.mark.parametrize(("n", "d"), [(3, 2), (3, 3)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_inequality_1_2_holds_with_the_constants_of_theorem_3_9(n: int, d: int, seed: int) -> None:
    count = 2000
    A = keys.full_spark(d, keys.universal_size(d, n), seed)
    a0, b0 = shared_columns(A.numpy(), n), float(torch.linalg.matrix_norm(A, 2))
    readout = Ordering(d, n, key=A)
    X, Y = pairs(count, n, d, seed)
    ptr = torch.arange(0, count * n + 1, n)
    moved = (readout(X.reshape(-1, d), ptr=ptr) - readout(Y.reshape(-1, d), ptr=ptr)).norm(dim=1)
    ratio = moved / quotient_distances(X, Y)
    assert 0 < a0 < b0
    assert ratio.min() >= a0 * (1 - 1e-7)
    assert ratio.max() <= b0 * (1 + 1e-7)


def test_reduced_is_b_of_beta() -> None:
    X = torch.randn(4, 2, dtype=torch.float64)
    readout = ReducedOrdering(2, 4, seed=3)
    expected = readout.weight.double() @ beta(X, readout.key).flatten()
    assert readout.out_channels == 2 * 4 * 2
    torch.testing.assert_close(readout(X)[0], expected)


def test_reduced_separates_what_a_universal_key_separates() -> None:
    """Theorem 3.13: 2nd numbers of a generic B are enough. The smallest ratio stays away from 0."""
    readout = ReducedOrdering(2, 3, key=keys.full_spark(2, 7))
    X, Y = pairs(4000, 3, 2)
    ptr = torch.arange(0, 12001, 3)
    moved = (readout(X.reshape(-1, 2), ptr=ptr) - readout(Y.reshape(-1, 2), ptr=ptr)).norm(dim=1)
    assert (moved / quotient_distances(X, Y)).min() > 0.05


def test_b_is_trained_only_if_asked_for() -> None:
    assert not list(ReducedOrdering(2, 3).parameters())
    trained = ReducedOrdering(2, 3, trainable=True, out_channels=5)
    trained(torch.randn(3, 2)).sum().backward()
    assert trained.weight.shape == (5, 15) and trained.weight.grad.any()


def test_bad_input_is_refused() -> None:
    with pytest.raises(ReadoutError, match="3 rows.*d = 2"):
        beta(torch.zeros(4, 2), torch.eye(3))
    with pytest.raises(ReadoutError, match="X has entries.*not finite"):
        beta([[float("nan"), 1.0]], torch.eye(2))
