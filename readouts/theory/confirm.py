"""Confirms what float64 suggests: a collision or a ratio in many digits, a jump by shrinking the pair."""

from dataclasses import replace

import numpy as np
import torch
from mpmath import mp, mpf
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

from permlab.readouts.theory.digits import TooFlatError
from permlab.readouts.theory.metric import align, quotient_distance, quotient_distances
from permlab.readouts.theory.precise import formula, length, numbers
from permlab.readouts.theory.search import Measured, Pair, apply, jacobian, measure, pseudo_inverse

DIGITS = 60
AGREES = 1e-6  # largest difference of a formula and its readout, relative to the size of the image
JUMPS = 16  # how many pairs are shrunk
HALVINGS = 20
GROWS = 200  # how many pairs are scaled
SCALE, STEEPER = 1e4, 1e3  # matrices so many times larger, and how many times as steep φ must be on them


def precisely(readout: Aggregation, pair: Pair) -> Pair:
    """The pair with ‖φ(X) − φ(Y)‖ in DIGITS digits; unchanged if φ has no formula."""
    if not has_formula(readout, pair):
        return pair
    with mp.workdps(DIGITS):
        return replace(pair, moved=float(length(_difference(readout, numbers(pair.X), numbers(pair.Y)))))


def has_formula(readout: Aggregation, pair: Pair) -> bool:
    """Does a formula give the same values as the readout? A subclass may have changed what its parent computes."""
    images = apply(readout, torch.stack([pair.X, pair.Y])).detach().numpy()
    for X, image in zip((pair.X, pair.Y), images, strict=True):
        try:
            with mp.workdps(DIGITS):
                precise = formula(readout, numbers(X))
        except TooFlatError:
            return False
        if precise is None or np.linalg.norm(precise.astype(float) - image) > AGREES * (1 + np.linalg.norm(image)):
            return False
    return True


def collision(readout: Aggregation, pair: Pair) -> Pair | None:
    """The pair with equal images in many digits. None: there is none near by, or φ is too flat to tell."""
    try:
        return _meeting(readout, pair)
    except TooFlatError:
        return None


def _meeting(readout: Aggregation, pair: Pair) -> Pair | None:
    """The pair, moved by Newton's method to where φ(X) = φ(Y) in many digits. None: it does not converge. If n rows
    merge, images may be δⁿ apart for inputs δ apart: equal means much closer than that. A step takes the difference in
    many digits and the Jacobian in float64; if the images do meet, it gains several digits each time.
    """
    if not has_formula(readout, pair):
        return None
    goal = mpf(10) ** -20 * (mpf(10) ** -3 * min(1.0, pair.distance)) ** len(pair.X)
    with mp.workdps(DIGITS - int(mp.log10(goal))):
        both = np.stack([numbers(pair.X), numbers(pair.Y)])
        back = pseudo_inverse(jacobian(readout, pair.X, pair.Y)).numpy()  # [2nd, m]
        difference = _difference(readout, *both)
        while (moved := length(difference)) > goal:
            both = both - moved * (back @ (difference / moved).astype(float)).reshape(both.shape)
            difference = _difference(readout, *both)
            if length(difference) > moved / 100:
                return None
    X, Y = torch.from_numpy(both.astype(float))
    return Pair(X, Y, quotient_distance(X, Y), float(moved))


def jump(readout: Aggregation, measured: Measured, bound: float | None) -> Pair | None:
    """A pair near which φ jumps: after repeated halving its inputs meet and its outputs do not, beyond any bound."""
    start = measured.extremes(JUMPS, largest=True)
    left, right, middle, last = _halved(readout, start.X, start.Y)
    distance = quotient_distances(left, right)
    size = torch.stack([apply(readout, side).norm(dim=1) for side in (left, right)]).amax(dim=0)
    stays = (last > middle / 2) & (last > AGREES * size) & (distance > 0) & (last > (bound or 0) * distance)
    shrunk = Measured(left, right, distance, last).where(stays)
    if not len(shrunk):
        return None
    widest = shrunk[int(shrunk.moved.argmax())]
    return widest if precisely(readout, widest).moved > widest.moved / 2 else None


def growth(readout: Aggregation, measured: Measured) -> Pair | None:
    """The steepest pair found among matrices SCALE times as large, if it is STEEPER times as steep as the steepest one
    of usual size: no Lipschitz constant is in sight. Evidence, not proof.
    """
    start = measured.where(measured.distance > 0.1)
    start = start.where(torch.linspace(0, len(start) - 1, min(GROWS, len(start))).long())
    usual, large = (_steepest(readout, scale * start.X, scale * start.Y) for scale in (1.0, SCALE))
    return large if usual and large and large.ratio > STEEPER * usual.ratio else None


def _steepest(readout: Aggregation, X: Tensor, Y: Tensor) -> Pair | None:
    """The largest ratio along a bisection of X … ΠY that keeps the half where φ changes more."""
    best: Pair | None = None
    for _ in range(HALVINGS):
        measured = measure(readout, X, Y)
        steep = measured.where((measured.moved > AGREES) & (measured.distance > AGREES)).extremes(1, largest=True)
        if len(steep) and (best is None or steep[0].ratio > best.ratio):
            best = steep[0]
        X, Y, _, _ = _halved(readout, X, Y, 1)
    return best


def _difference(readout: Aggregation, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    first, second = formula(readout, X), formula(readout, Y)
    assert first is not None and second is not None
    return first - second


def _halved(
    readout: Aggregation, X: Tensor, Y: Tensor, halvings: int = HALVINGS
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Bisects X … ΠY, keeping the half where φ changes more: the ends, and ‖φ(X) − φ(Y)‖ half-way and at the end."""
    history = []
    for _ in range(halvings):
        between = (X + align(X, Y)) / 2
        images = [apply(readout, side) for side in (X, between, Y)]
        before, after = ((images[i] - images[i + 1]).norm(dim=1) for i in (0, 1))
        nearer = (before > after)[:, None, None]
        X, Y = torch.where(nearer, X, between), torch.where(nearer, between, Y)
        history.append(torch.maximum(before, after))
    return X, Y, history[halvings // 2 - 1], history[-1]
