import pytest
import torch

from permlab.readouts.catalogue import build
from permlab.readouts.theory.keys import full_spark
from permlab.readouts.theory.pairs import draw
from permlab.readouts.theory.search import Pair, apply, climb, explore, jacobian, measure, meet, steps_of


def test_measured_distances_are_those_of_each_pair() -> None:
    readout = build("ordering", 2, 3).double()
    pairs = measure(readout, *draw(60, 3, 2, seed=0))
    for place in (0, 17, len(pairs) - 1):
        pair = pairs[place]
        assert pair.moved == float((readout(pair.X) - readout(pair.Y)).norm())
        assert pair.ratio == float(pairs.ratio[place])


def test_equal_pairs_are_left_out() -> None:
    X = torch.randn(4, 3, 2, dtype=torch.float64)
    assert len(measure(build("sum", 2, 3), X, X.flip(1))) == 0


def test_climbing_reaches_the_lipschitz_constant_of_the_sum() -> None:
    readout = build("sum", 2, 4).double()
    start = measure(readout, *draw(120, 4, 2, seed=0))
    most, least = (climb(readout, start, 200, largest, 0.05, lambda: None).ratio for largest in (True, False))
    assert abs(float(most.max()) - 2) < 1e-3
    assert float(least.min()) < 1e-2


@pytest.mark.parametrize(
    ("method", "options", "steps", "known"),
    [("reduced", {}, 120, 0.161), ("ordering", {"key": full_spark(2, 4)}, 30, 0.274)],
)
def test_exploring_finds_ratios_as_small_as_are_known(method: str, options: dict, steps: int, known: float) -> None:
    readout = build(method, 2, 3, **options).double()
    start = measure(readout, *draw(3000, 3, 2, seed=0))
    assert float(explore(readout, start, steps, False, seed=0, step_done=lambda: None).ratio.min()) <= known


def test_exploring_depends_on_the_seed_alone() -> None:
    readout = build("ordering", 2, 3, key=full_spark(2, 4)).double()
    start, steps = measure(readout, *draw(120, 3, 2, seed=0)), []
    first, again, other = (explore(readout, start, 6, False, seed, lambda: steps.append(1)).X for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert len(steps) == 3 * steps_of(6)


def test_the_jacobian_is_that_of_finite_differences() -> None:
    readout, step = build("alpha1", 2, 3).double(), 1e-6
    X, Y = torch.randn(2, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    moved = X.clone()
    moved[1, 0] += step
    expected = (readout(moved) - readout(X))[0] / step
    torch.testing.assert_close(jacobian(readout, X, Y)[:, 2], expected, rtol=1e-4, atol=1e-5)


def test_newton_meets_where_images_agree() -> None:
    readout = build("sum", 2, 3).double()
    X, Y = torch.randn(2, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    met = meet(readout, Pair(X, Y, 1.0, 1.0))
    assert met.moved < 1e-12 and met.distance > 0.1
    torch.testing.assert_close(apply(readout, met.X[None]), apply(readout, met.Y[None]))
