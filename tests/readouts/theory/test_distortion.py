from math import inf, sqrt

import numpy as np
import pytest
import torch

from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory.distortion import (
    Distortion,
    Question,
    answer,
    bounds,
    key_size,
    optimised,
    rounded,
    spread,
)
from permlab.readouts.theory.keys import full_spark, gaussian

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(("n", "D", "keys"), [(2, 3, 80), (2, 4, 60), (3, 4, 40), (3, 5, 20)])
def test_bounds_and_ratios_are_in_order_for_two_hundred_keys(n: int, D: int, keys: int) -> None:
    """Certified ≤ smallest found ≤ largest found ≤ s₁(A)."""
    for seed in range(keys):
        key = rounded((gaussian if seed % 2 else full_spark)(2, D, seed), n)
        row = bounds(key, n, seed, steps=1)
        assert 0 <= row.certified <= row.smallest * (1 + 1e-9)
        assert row.smallest < row.largest <= row.b0 * (1 + 1e-9)
        assert row.certified > 0 or row.proof == "a pair collides"


def test_the_search_finds_b0() -> None:
    row = bounds(rounded(gaussian(2, 5, 1), 3), 3, steps=30)
    assert row.largest == pytest.approx(row.b0, rel=1e-3)


def test_the_key_of_section_4() -> None:
    """Two rows: a₀ is the smallest singular value of any two columns, (√5 − 1)/2. Three rows: a pair collides."""
    two, three = (Distortion.of(answer(Question("[I | 1]", n, 2, steps=1))) for n in (2, 3))
    assert two.b0 == pytest.approx(sqrt(3)) and two.certified == pytest.approx((sqrt(5) - 1) / 2)
    assert two.at_most == pytest.approx(two.b0 / two.certified)
    assert three.certified == three.smallest == 0 and three.at_least == three.at_most == inf


def test_equiangular_lines() -> None:
    """In the plane by their angles; in space six lines with |cos| = 1/√5 are the diagonals of the icosahedron."""
    assert (spread(2, 3).T @ spread(2, 3)).abs().round(decimals=9).unique().tolist() == [0.5, 1.0]
    cosines = (spread(3, 6).T @ spread(3, 6)).abs()[~torch.eye(6, dtype=torch.bool)]
    np.testing.assert_allclose(cosines, 1 / sqrt(5), atol=0.01)


def test_optimised_keys_beat_generic_ones() -> None:
    best = bounds(rounded(optimised(3, 2, 5, rounds=3), 3), 3, steps=20)
    others = [bounds(rounded(gaussian(2, 5, seed), 3), 3, steps=20) for seed in range(4)]
    assert best.at_most < min(other.at_least for other in others)


def test_a_question_has_one_key_and_one_name() -> None:
    question = Question("generic", 3, 2, seed=4)
    assert np.array_equal(question.key, Question("generic", 3, 2, seed=4).key)
    assert question.key.shape == (2, key_size(3, 2)) == (2, 5)
    assert question.name != Question("generic", 3, 2, columns=4, seed=4).name
    with pytest.raises(ReadoutError, match="unknown kind of key 'x'; choose from generic"):
        Question("x", 3, 2)
