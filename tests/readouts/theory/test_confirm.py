"""Real collisions and jumps are confirmed; those that only rounding produces are not."""

import numpy as np
import pytest
import torch
from torch import Tensor

from permlab.readouts.catalogue import build
from permlab.readouts.pooling import Sum
from permlab.readouts.sorting import Ordering
from permlab.readouts.theory import confirm
from permlab.readouts.theory.metric import quotient_distance
from permlab.readouts.theory.pairs import draw
from permlab.readouts.theory.search import Pair, measure
from tests.readouts.cases import MeanInstead


def pair_of(readout, X: Tensor, Y: Tensor) -> Pair:
    return Pair(X, Y, quotient_distance(X, Y), float((readout(X) - readout(Y)).norm()))


def near_a_multiple_root(n: int) -> tuple[Tensor, Tensor]:
    """The roots of tⁿ = δⁿ and of tⁿ = −δⁿ, as rows of the plane: only the last coefficients differ, by 2δⁿ."""
    angle = np.pi * np.arange(2 * n) / n
    circle = 0.01 * torch.tensor(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    return circle[::2], circle[1::2]


def test_images_that_differ_in_the_sixteenth_digit_differ() -> None:
    """In float64 that might be rounding; more digits say that it is not."""
    readout = build("zeta0", d=2, max_nodes=8).double()
    pair = pair_of(readout, *near_a_multiple_root(8))
    assert pair.moved < 1e-15 < 5e-3 < pair.distance
    assert confirm.collision(readout, pair) is None
    assert confirm.precisely(readout, pair).moved == pytest.approx(2 * 0.01**8, rel=0.1)


def test_a_collision_of_irrational_matrices_is_reached() -> None:
    """Rows of the unit circle in another length: (X, Y) in float64 have one image up to rounding only."""
    readout = build("kernels", d=2, max_nodes=3).double()
    X = torch.randn(3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    met = confirm.collision(readout, pair_of(readout, X, X * torch.tensor([[1.1], [0.7], [3.3]], dtype=torch.float64)))
    assert met is not None and met.moved < 1e-29 and met.distance > 0.5


def test_an_exact_collision_is_confirmed_as_it_is() -> None:
    readout = build("sum", d=1, max_nodes=2).double()
    X, Y = torch.tensor([[[1.0], [-1.0]], [[2.0], [-2.0]]], dtype=torch.float64)
    confirmed = confirm.collision(readout, pair_of(readout, X, Y))
    assert confirmed is not None and confirmed.moved == 0 and confirmed.distance == pytest.approx(2**0.5)
    assert torch.equal(confirmed.X, X) and torch.equal(confirmed.Y, Y)


def test_a_subclass_that_computes_something_else_is_not_judged_by_its_parent() -> None:
    X, Y = torch.tensor([[[1.0], [3.0]], [[2.0], [2.0]]], dtype=torch.float64)
    assert confirm.has_formula(Sum(1), pair_of(Sum(1), X, Y))
    assert not confirm.has_formula(MeanInstead(1), pair_of(MeanInstead(1), X, Y))
    assert confirm.collision(MeanInstead(1), pair_of(MeanInstead(1), X, Y)) is None


def test_a_steep_map_does_not_jump() -> None:
    """The outputs differ by 1 where inputs are 1e-5 apart, and by less and less as the pair shrinks."""
    steep = Ordering(2, 3, key=[[1e5, 0, 1], [0, 1e5, 1]])
    pairs = measure(steep, *draw(600, 3, 2, seed=0))
    assert bool(((pairs.distance < 1e-5) & (pairs.moved > 1e-2)).any())
    assert confirm.jump(steep, pairs, bound=None) is None


@pytest.mark.parametrize("method", ["sort", "kernels", "identity"])
def test_a_jump_stays_as_the_pair_shrinks(method: str) -> None:
    readout = build(method, d=2, max_nodes=3).double()
    pairs = measure(readout, *draw(600, 3, 2, seed=0))
    jump = confirm.jump(readout, pairs, bound=None)
    assert jump is not None and jump.distance < 1e-10 and jump.moved > 0.1
    assert jump.moved == pytest.approx(float((readout(jump.X) - readout(jump.Y)).norm()))
    assert confirm.jump(readout, pairs, bound=1e20) is None


@pytest.mark.parametrize("size", [1e5, 1e9])
def test_images_that_agree_because_tanh_is_flat_are_no_collision(size: float) -> None:
    deepsets = build("deepsets", d=1, max_nodes=2).double()
    X, Y = torch.tensor([[1.0], [2.0]]).double() * size, torch.tensor([[3.0], [5.0]]).double() * size
    pair = pair_of(deepsets, X, Y)
    assert pair.moved < 1e-12 and confirm.collision(deepsets, pair) is None
    assert confirm.precisely(deepsets, pair) == pair
