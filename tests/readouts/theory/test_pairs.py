import pytest
import torch

from permlab.readouts.theory.metric import quotient_distances
from permlab.readouts.theory.pairs import FAMILIES, draw


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("n", "d"), [(1, 1), (3, 2)])
def test_families_give_finite_pairs(family: str, n: int, d: int) -> None:
    X, Y = FAMILIES[family](50, n, d, torch.Generator().manual_seed(0))
    assert X.shape == Y.shape == (50, n, d)
    assert torch.isfinite(X).all() and torch.isfinite(Y).all()


@pytest.mark.parametrize("family", ["nearby", "across a tie", "across zero", "across equal rows"])
def test_steps_go_down_to_a_millionth(family: str) -> None:
    distances = quotient_distances(*FAMILIES[family](60, 3, 2, torch.Generator().manual_seed(0)))
    assert distances[-10:].max() < 1e-4 < 0.1 < distances[:10].max()


def test_the_seed_decides() -> None:
    assert torch.equal(draw(100, 3, 2, seed=4)[1], draw(100, 3, 2, seed=4)[1])
    assert not torch.equal(draw(100, 3, 2, seed=4)[1], draw(100, 3, 2, seed=5)[1])
