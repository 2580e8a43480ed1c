"""What a readout keeps and loses on n × d matrices, as far as a search can find out.

A search proves no bound. But a ratio, a collision or a jump that it found is a fact: the pair is kept. All float64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import comb, sqrt

import torch
from torch import Tensor

from permlab.readouts import pairs
from permlab.readouts.base import Readout
from permlab.readouts.checks import check_size
from permlab.readouts.errors import ReadoutError
from permlab.readouts.keys import MAX_MINORS, is_full_spark, lipschitz_bounds, universal_size
from permlab.readouts.pooling import Sum
from permlab.readouts.search import Measured, Pair, apply, climb, measure, meet
from permlab.readouts.sorting import Ordering, ReducedOrdering
from permlab.readouts.universality import Universality, check_universal, within_reach

COLLIDED, APART = 1e-10, 1e-2  # outputs this near for inputs this far, relative to the size of X: a collision
CLOSE, JUMPED = 1e-5, 1e-2  # inputs this near for outputs this far: not continuous
INVARIANT = 1e-9


@dataclass(frozen=True)
class Extremes:
    """The pairs of smallest and largest ‖φ(X) − φ(Y)‖ / d(X, Y) that one way of searching found."""

    smallest: Pair
    largest: Pair
    pairs: int


@dataclass(frozen=True)
class Certificate:
    """The result of `certify`. None stands for: no theorem says (bounds), none found (collision, jump), not decided."""

    n: int
    d: int
    m: int
    invariance_error: float  # largest ‖φ(ΠX) − φ(X)‖ / ‖φ(X)‖
    sampling: Extremes
    gradient: Extremes
    lower: float | None  # a₀ of a theorem
    upper: float | None  # b₀
    collision: Pair | None
    jump: Pair | None
    universality: Universality | None

    def contradictions(self, readout: Readout) -> list[str]:
        """Facts that the readout's class states and this certificate refutes."""
        found = []
        if readout.permutation_invariant != (self.invariance_error < INVARIANT):
            found.append(f"permutation_invariant is {readout.permutation_invariant}")
        if readout.injective == "yes" and self.collision:
            found.append("injective is 'yes'")
        if readout.lipschitz and self.jump:
            found.append("lipschitz is True")
        smallest = min(self.sampling.smallest.ratio, self.gradient.smallest.ratio)
        largest = max(self.sampling.largest.ratio, self.gradient.largest.ratio)
        if self.lower and smallest < self.lower * (1 - 1e-6):
            found.append(f"a ratio of {smallest:.4g} below a₀ = {self.lower:.4g}")
        if self.upper and largest > self.upper * (1 + 1e-6):
            found.append(f"a ratio of {largest:.4g} above b₀ = {self.upper:.4g}")
        return found


def certify(
    readout: Readout,
    n: int,
    samples: int = 3000,
    steps: int = 300,
    seed: int = 0,
    budget: int = 20_000,
    seconds: float = 60.0,
    progress: Callable[[int, int | None], None] | None = None,
) -> Certificate:
    """Search matrices of n rows for extremes. `budget` and `seconds` bound the check of universality."""
    for name, value, least in (("n", n, 1), ("samples", samples, 100), ("steps", steps, 1), ("seed", seed, 0)):
        check_size(name, value, least)
    if readout.max_nodes is not None and n > readout.max_nodes:
        raise ReadoutError(f"n is {n}, but the readout was built for max_nodes = {readout.max_nodes} at most")
    readout = readout.double().requires_grad_(False)
    X, Y = pairs.draw(samples, n, readout.in_channels, seed)
    sampled = measure(readout, X, Y)

    def report(offset: int) -> Callable[[int], None] | None:
        return (lambda step: progress(offset + step, 2 * steps)) if progress else None

    down = climb(readout, sampled, steps, largest=False, progress=report(0))
    up = climb(readout, sampled, steps, largest=True, progress=report(steps))
    universality = None
    if isinstance(readout, Ordering) and within_reach(n, readout.in_channels):
        universality = check_universal(readout.key, n, budget, seconds)
    lower, upper = theorem_bounds(readout, n)
    everything = (sampled, down, up)
    return Certificate(
        n=n,
        d=readout.in_channels,
        m=readout.out_channels,
        invariance_error=_invariance_error(readout, X, seed),
        sampling=_extremes(sampled),
        gradient=Extremes(_extremes(down).smallest, _extremes(up).largest, len(down) + len(up)),
        lower=lower,
        upper=upper,
        collision=_collision(readout, everything, universality),
        jump=_jump(everything),
        universality=universality,
    )


def theorem_bounds(readout: Readout, n: int) -> tuple[float | None, float | None]:
    """(a₀, b₀) of inequality (1.2) for matrices of n rows, where a theorem gives them."""
    if isinstance(readout, Sum):
        return None, sqrt(n)
    if isinstance(readout, ReducedOrdering):
        return None, _norm(readout.key) * _norm(readout.weight)
    if isinstance(readout, Ordering):
        d, D = readout.key.shape
        if universal_size(d, n) <= D and comb(D, d) <= MAX_MINORS and is_full_spark(readout.key):
            return lipschitz_bounds(readout.key)
        return None, _norm(readout.key)
    return None, None


def _norm(matrix: Tensor) -> float:
    return float(torch.linalg.matrix_norm(matrix.double(), 2))


def _invariance_error(readout: Readout, X: Tensor, seed: int) -> float:
    images = apply(readout, X)
    moved = apply(readout, pairs.shuffled(X, torch.Generator().manual_seed(seed + 1)))
    return float(((moved - images).norm(dim=1) / images.norm(dim=1).clamp(min=1e-12)).max())


def _extremes(measured: Measured) -> Extremes:
    return Extremes(measured[int(measured.ratio.argmin())], measured[int(measured.ratio.argmax())], len(measured))


def _collision(readout: Readout, found: tuple[Measured, ...], universality: Universality | None) -> Pair | None:
    """Two matrices that are clearly different and have one image: found as such, or reached from the nearest."""
    if universality and universality.X is not None and universality.Y is not None:
        known = measure(readout, universality.X[None], universality.Y[None])
        return known[0]
    for measured in found:
        far = measured.where(measured.distance > APART * measured.X.flatten(1).norm(dim=1))
        for place in far.ratio.argsort()[:4].tolist():
            pair = far[place] if far[place].moved == 0 else meet(readout, far[place])
            size = max(float(pair.X.norm()), 1e-12)
            if pair.moved < COLLIDED * size and pair.distance > APART * size and torch.isfinite(pair.X).all():
                return pair
    return None


def _jump(found: tuple[Measured, ...]) -> Pair | None:
    """Two matrices nearly the same whose images are not."""
    for measured in found:
        near = measured.where((measured.distance < CLOSE) & (measured.moved > JUMPED))
        if len(near):
            return near[int(near.moved.argmax())]
    return None
