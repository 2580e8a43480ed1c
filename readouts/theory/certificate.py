"""What a readout preserves and what it loses on n × d matrices, as far as a search can tell.

A search does not prove a bound. But a ratio, a collision or a jump that it reports is a fact: float64 finds the pair,
which is stored, and `confirm` checks it in many digits or by shrinking it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

from permlab.readouts.base import sizes_of, stated_facts
from permlab.readouts.checks import check_size
from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory import confirm, pairs
from permlab.readouts.theory.bounds import sorting_key, theorem_bounds
from permlab.readouts.theory.known_collisions import known_collision
from permlab.readouts.theory.metric import quotient_distance
from permlab.readouts.theory.search import Measured, Pair, apply, explore, measure, meet, steps_of
from permlab.readouts.theory.universality import Universality, check_universal, decidable

COLLIDED, APART = (
    1e-10,
    1e-2,
)  # candidate collision: outputs this close, inputs this far apart, relative to X
INVARIANT = 1e-9
SAMPLES = 3500  # pairs that are tried, unless told otherwise


@dataclass(frozen=True)
class Extremes:
    """The pairs with the smallest and the largest ‖φ(X) − φ(Y)‖ / d(X, Y) of one search strategy."""

    smallest: Pair
    largest: Pair
    pairs: int


@dataclass(frozen=True)
class Certificate:
    """The result of `certify`. None means: no theorem applies (bounds), no pair was found (pairs), not decided."""

    n: int
    d: int
    m: int
    invariance_error: float  # largest ‖φ(ΠX) − φ(X)‖ / ‖φ(X)‖
    sampling: Extremes
    gradient: Extremes
    lower: float | None  # a₀ of a theorem
    upper: float | None  # b₀
    collision: Pair | None  # confirmed
    unconfirmed: Pair | None  # a near collision, if none was confirmed: equal images in float64, not in many digits
    jump: Pair | None
    growth: Pair | None  # large matrices with a ratio far beyond those of small ones: φ gets steeper without end
    universality: Universality | None

    def contradictions(self, readout: Aggregation) -> list[str]:
        """Facts that the readout's class states and this certificate refutes."""
        stated, refuted = stated_facts(readout), []
        if stated.get("permutation_invariant") and self.invariance_error > INVARIANT:
            refuted.append("permutation_invariant is True")
        if stated.get("injective") == "yes" and self.collision:
            refuted.append("injective is 'yes'")
        if stated.get("lipschitz") and self.jump:
            refuted.append("lipschitz is True")
        smallest = min(self.sampling.smallest.ratio, self.gradient.smallest.ratio)
        largest = max(self.sampling.largest.ratio, self.gradient.largest.ratio)
        if self.lower and smallest < self.lower * (1 - 1e-6):
            refuted.append(f"a ratio of {smallest:.4g} below a₀ = {self.lower:.4g}")
        if self.upper and largest > self.upper * (1 + 1e-6):
            refuted.append(f"a ratio of {largest:.4g} above b₀ = {self.upper:.4g}")
        return refuted


def certify(
    readout: Aggregation,
    n: int,
    samples: int = SAMPLES,
    steps: int = 300,
    seed: int = 0,
    budget: int = 20_000,
    seconds: float = 60.0,
    progress: Callable[[int, int | None], None] | None = None,
) -> Certificate:
    """Search matrices of n rows for extremes. `budget` and `seconds` bound the check of universality."""
    for name, value, least in (("n", n, 1), ("samples", samples, 100), ("steps", steps, 1), ("seed", seed, 0)):
        check_size(name, value, least)
    largest = getattr(readout, "max_nodes", None)
    if isinstance(largest, int) and n > largest:
        raise ReadoutError(f"n is {n}, but the readout was built for max_nodes = {largest} at most")
    readout = readout.double().eval().requires_grad_(False)
    d, m = sizes_of(readout)
    X, Y = pairs.draw(samples, n, d, seed)
    sampled = measure(readout, X, Y)
    done = count(1)

    def step_done() -> None:
        if progress:
            progress(next(done), 2 * steps_of(steps))

    down, up = (explore(readout, sampled, steps, largest, seed, step_done) for largest in (False, True))
    universality = None
    key = sorting_key(readout, n)
    if key is not None and decidable(key, n):
        universality = check_universal(key, n, budget, seconds)
    lower, upper = theorem_bounds(readout, n)
    collision, unconfirmed = _collision(readout, (sampled, down, up), universality)
    jump = confirm.jump(readout, sampled, upper) or confirm.jump(readout, up, upper)
    return Certificate(
        n=n,
        d=d,
        m=m,
        invariance_error=_invariance_error(readout, X, seed),
        sampling=_extremes(readout, sampled, sampled),
        gradient=_extremes(readout, down, up),
        lower=lower,
        upper=upper,
        collision=collision,
        unconfirmed=unconfirmed,
        jump=jump,
        growth=None if jump else confirm.growth(readout, sampled),
        universality=universality,
    )


def _invariance_error(readout: Aggregation, X: Tensor, seed: int) -> float:
    """Relative to the image, taken as at least 1e-3 of the median size: below that, a sum that cancels is rounding."""
    images = apply(readout, X)
    moved = apply(readout, pairs.shuffled(X, torch.Generator().manual_seed(seed + 1)))
    size = images.norm(dim=1)
    return float(((moved - images).norm(dim=1) / size.clamp(min=1e-3 * float(size.median()) + 1e-12)).max())


def _extremes(readout: Aggregation, low: Measured, high: Measured) -> Extremes:
    smallest, largest = low.extremes(1, largest=False)[0], high.extremes(1, largest=True)[0]
    searched = len(low) if low is high else len(low) + len(high)
    return Extremes(confirm.precisely(readout, smallest), confirm.precisely(readout, largest), searched)


def _collision(
    readout: Aggregation, searches: tuple[Measured, ...], universality: Universality | None
) -> tuple[Pair | None, Pair | None]:
    """Two clearly different matrices with the same image: confirmed, or else a pair that float64 cannot separate."""
    if universality and universality.X is not None and universality.Y is not None:
        X, Y = universality.X, universality.Y
        return Pair(X, Y, quotient_distance(X, Y), 0.0), None
    unconfirmed = None
    for measured in searches:
        far = measured.where(measured.distance > APART * measured.X.flatten(1).norm(dim=1))
        nearest = far.extremes(4, largest=False)
        for pair in (nearest[place] for place in range(len(nearest))):
            pair = pair if pair.moved == 0 else meet(readout, pair)
            if not _seems_to_collide(pair):
                continue
            confirmed = confirm.collision(readout, pair)
            if confirmed and _seems_to_collide(confirmed):
                return confirmed, None
            unconfirmed = unconfirmed or pair
    known = known_collision(readout, len(searches[0].X[0]))
    return known, None if known else unconfirmed


def _seems_to_collide(pair: Pair) -> bool:
    size = max(float(pair.X.norm()), 1e-12)
    return bool(pair.moved < COLLIDED * size and pair.distance > APART * size and torch.isfinite(pair.X).all())
