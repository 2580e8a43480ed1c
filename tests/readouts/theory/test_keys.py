from itertools import combinations

import numpy as np
import pytest
import sympy
import torch

from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory import keys


def test_the_key_of_section_4() -> None:
    assert keys.identity_plus_ones(2).tolist() == [[1, 0, 1], [0, 1, 1]]


def test_identity_plus_a() -> None:
    assert keys.identity_plus([2.0, -3.0]).tolist() == [[1, 0, 2], [0, 1, -3]]


@pytest.mark.parametrize(("d", "D"), [(1, 1), (2, 7), (3, 13), (4, 9), (2, 60)])
def test_full_spark_is_full_spark(d: int, D: int) -> None:
    A = keys.full_spark(d, D, seed=1)
    assert A.shape == (d, D)
    assert keys.is_full_spark(A)
    assert torch.equal(A, keys.full_spark(d, D, seed=1))
    assert not torch.equal(A.abs(), keys.full_spark(d, D, seed=2).abs()) or d == 1


@pytest.mark.parametrize("seed", range(12))
def test_is_full_spark_agrees_with_exact_minors(seed: int) -> None:
    A = np.random.default_rng(seed).integers(-2, 3, (2 + seed % 2, 5))
    minors = [sympy.Matrix(A[:, list(J)]).det() for J in combinations(range(5), len(A))]
    assert keys.is_full_spark(A) == all(minor != 0 for minor in minors)


def test_a_vandermonde_key_is_full_spark_and_a_repeated_column_is_not() -> None:
    vandermonde = np.vander([1.0, 2.0, 3.0, 4.0, 5.0], 3).T
    assert keys.is_full_spark(vandermonde)
    assert not keys.is_full_spark(np.concatenate([vandermonde, -2 * vandermonde[:, :1]], axis=1))
    assert not keys.is_full_spark([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def test_size_of_theorem_3_9() -> None:
    assert [keys.universal_size(d, n) for d, n in ((1, 5), (2, 3), (3, 3), (2, 20))] == [1, 7, 13, 2432902008176640001]


def test_keys_in_words() -> None:
    assert torch.equal(keys.parse_key("ones", 3, n=4), keys.identity_plus_ones(3))
    assert torch.equal(keys.parse_key("identity", 3, n=4), keys.identity(3))
    assert torch.equal(keys.parse_key("gaussian:5", 3, n=4, seed=2), keys.gaussian(3, 5, seed=2))
    assert torch.equal(keys.parse_key("spark:5", 3, n=4, seed=2), keys.full_spark(3, 5, seed=2))
    assert keys.parse_key("spark", 2, n=3).shape == (2, 7)
    assert keys.parse_key("1,0,.5;0,-1,2", 2, n=3).tolist() == [[1, 0, 0.5], [0, -1, 2]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: keys.gaussian(3, 2), "D is 2.*d = 3"),
        (lambda: keys.full_spark(0, 2), "d is 0"),
        (lambda: keys.identity_plus([1.0, 0.0]), "zero at 1"),
        (lambda: keys.is_full_spark(torch.ones(3, 2)), "D = 2 columns.*d = 3"),
        (lambda: keys.is_full_spark([[float("nan"), 1.0]]), "not finite"),
        (lambda: keys.is_full_spark(keys.gaussian(9, 60)), "limit is 2,000,000"),
        (lambda: keys.check_key([1.0, 2.0]), r"key A.*\[2\]"),
    ],
)
def test_bad_keys_are_refused(call, message: str) -> None:
    with pytest.raises(ReadoutError, match=message):
        call()
