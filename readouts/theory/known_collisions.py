"""Collisions that a search in float64 cannot meet but an argument gives, confirmed in many digits."""

from functools import singledispatch

import torch
from mpmath import mp
from torch_geometric.nn.aggr import Aggregation

from permlab.readouts.kernels import FourierKernels
from permlab.readouts.theory import confirm
from permlab.readouts.theory.digits import formula, length, numbers
from permlab.readouts.theory.metric import quotient_distance
from permlab.readouts.theory.search import Pair

LARGEST = 500  # the square of 2^k, which a distance takes, must be a float


@singledispatch
def known_collision(readout: Aggregation, n: int) -> Pair | None:
    """Two matrices of n rows with the same image, if an argument gives them."""
    return None


@known_collision.register
def _(readout: FourierKernels, n: int) -> Pair | None:
    """X and X + 2^k e₁: a frequency is a float, an integer once it is multiplied by a large power of two."""
    d = readout.frequencies.shape[1]
    X = torch.ones(n, d, dtype=torch.float64)
    if not confirm.has_formula(readout, Pair(X, 2 * X, 0.0, 0.0)):
        return None
    _, exponents = torch.frexp(readout.frequencies[readout.frequencies != 0])
    k = 53 - int(exponents.min()) if len(exponents) else LARGEST + 1
    if k > LARGEST:
        return None
    X[0, 0], Y = 0, X.clone()
    Y[0, 0] = 2.0**k
    with mp.workdps(2 * confirm.DIGITS):
        images = formula(readout, numbers(X)), formula(readout, numbers(Y))
        moved = float(length(images[0] - images[1]))  # type: ignore[operator]
    return Pair(X, Y, quotient_distance(X, Y), moved) if moved < 10.0**-confirm.DIGITS else None
