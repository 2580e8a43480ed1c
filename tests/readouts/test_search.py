import torch

from permlab.readouts.catalogue import build
from permlab.readouts.pairs import draw
from permlab.readouts.search import Pair, apply, climb, measure, meet


def test_measured_distances_are_those_of_each_pair() -> None:
    readout = build("ordering", 2, 3).double()
    found = measure(readout, *draw(60, 3, 2, seed=0))
    for place in (0, 17, len(found) - 1):
        pair = found[place]
        assert pair.moved == float((readout(pair.X) - readout(pair.Y)).norm())
        assert pair.ratio == float(found.ratio[place])


def test_equal_pairs_are_left_out() -> None:
    X = torch.randn(4, 3, 2, dtype=torch.float64)
    assert len(measure(build("sum", 2, 3), X, X.flip(1))) == 0


def test_climbing_reaches_the_lipschitz_constant_of_the_sum() -> None:
    readout = build("sum", 2, 4).double()
    start = measure(readout, *draw(120, 4, 2, seed=0))
    assert abs(float(climb(readout, start, 200, largest=True).ratio.max()) - 2) < 1e-3
    assert float(climb(readout, start, 200, largest=False).ratio.min()) < 1e-2


def test_newton_meets_where_images_agree() -> None:
    readout = build("sum", 2, 3).double()
    X, Y = torch.randn(2, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    met = meet(readout, Pair(X, Y, 1.0, 1.0))
    assert met.moved < 1e-12 and met.distance > 0.1
    torch.testing.assert_close(apply(readout, met.X[None]), apply(readout, met.Y[None]))
