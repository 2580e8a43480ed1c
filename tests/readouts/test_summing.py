"""Sums of piecewise linear functions have collisions."""

import torch

from permlab.readouts.catalogue import build
from permlab.readouts.theory import confirm
from permlab.readouts.theory.metric import quotient_distance
from permlab.readouts.theory.search import Pair


def test_adaptive_relu_does_not_see_opposite_moves_between_two_kinks() -> None:
    """d = 1: rows 0 and 1 fix the range, and two rows in the widest gap between kinks move by δ and −δ."""
    readout = build("adaptive_relu", d=1, max_nodes=4).double().requires_grad_(False)
    kinks = torch.where(readout.directions[0] > 0, readout.t, 1 - readout.t).sort().values
    widest = int(kinks.diff().argmax())
    middle, move = kinks[widest : widest + 2].mean(), 0.4 * kinks.diff()[widest]
    X = torch.stack([torch.zeros(()), torch.ones(()), middle, middle])[:, None].double()
    Y = X + move * torch.tensor([[0.0], [0.0], [1.0], [-1.0]])
    moved = float((readout(X) - readout(Y)).norm())
    confirmed = confirm.collision(readout, Pair(X, Y, quotient_distance(X, Y), moved))
    assert confirmed is not None and confirmed.distance > 1e-2 * float(X.norm()) and confirmed.moved < 1e-30
