"""The search for pairs (X, Y) where ‖φ(X) − φ(Y)‖ / d(X, Y) is extreme: by gradient, by Newton's method."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

from permlab.readouts.base import pooled, sizes_of
from permlab.readouts.theory import pairs
from permlab.readouts.theory.metric import align, quotient_distance, quotient_distances

LEAST_DISTANCE = 1e-7  # below this, a float64 ratio shows rounding rather than φ
STARTS = 1000
MOST_NUMBERS = 10**7  # n·m summed over the pairs of one step: some 100 MB
ROUNDS = 8  # rounds of short paths from noisy copies of the best pairs
COPIES, NOISE = 4, 0.5


@dataclass(frozen=True)
class Pair:
    """Two matrices [n, d], and how far apart they are before and after φ."""

    X: Tensor
    Y: Tensor
    distance: float  # d(X, Y)
    moved: float  # ‖φ(X) − φ(Y)‖

    @property
    def ratio(self) -> float:
        return self.moved / self.distance


@dataclass(frozen=True)
class Measured:
    """Many pairs: X, Y [pairs, n, d], distance and moved [pairs]."""

    X: Tensor
    Y: Tensor
    distance: Tensor
    moved: Tensor

    @property
    def ratio(self) -> Tensor:
        return self.moved / self.distance

    def __len__(self) -> int:
        return len(self.distance)

    def __getitem__(self, place: int) -> Pair:
        return Pair(self.X[place], self.Y[place], float(self.distance[place]), float(self.moved[place]))

    def where(self, places: Tensor) -> "Measured":
        """A copy of the pairs that a mask or indices select."""
        return Measured(self.X[places], self.Y[places], self.distance[places], self.moved[places])

    def beside(self, others: "Measured") -> "Measured":
        X, Y = torch.cat([self.X, others.X]), torch.cat([self.Y, others.Y])
        return Measured(X, Y, torch.cat([self.distance, others.distance]), torch.cat([self.moved, others.moved]))

    def extremes(self, count: int, largest: bool) -> "Measured":
        """At most `count` pairs, the most extreme first."""
        return self.where(self.ratio.argsort(descending=largest)[:count])


def apply(readout: Aggregation, X: Tensor) -> Tensor:
    """φ of every matrix of X [pairs, n, d] → [pairs, m]."""
    count, n, d = X.shape
    return pooled(readout, X.reshape(-1, d), torch.arange(count + 1) * n)


def measure(readout: Aggregation, X: Tensor, Y: Tensor) -> Measured:
    """Distances before and after φ; pairs nearer than LEAST_DISTANCE, and images that overflow, are left out."""
    moved = (apply(readout, X) - apply(readout, Y)).norm(dim=1)
    measured = Measured(X, Y, quotient_distances(X, Y), moved)
    return measured.where((measured.distance > LEAST_DISTANCE) & moved.isfinite())


def steps_of(steps: int) -> int:
    """How many steps `explore` takes in all, if each long path has `steps`."""
    return (1 + ROUNDS) * _short(steps) + steps


def _short(steps: int) -> int:
    return max(1, steps // 6)


def explore(
    readout: Aggregation, start: Measured, steps: int, largest: bool, seed: int, step_done: Callable[[], None]
) -> Measured:
    """The best pairs that gradients reach: the ratio has many local extremes, and most paths end in a poor one.

    Short paths from many pairs, then ROUNDS times from the best ones and noisy copies of them, then long paths.
    """
    generator = torch.Generator().manual_seed(seed)
    starts = min(STARTS, max(20, MOST_NUMBERS // (start.X.size(1) * sizes_of(readout)[1])))
    apart = start.where(start.distance > 0.1)
    first = apart.extremes(starts // 2, largest)
    drawn = apart.where(torch.arange(min(len(apart), starts - len(first))))
    best = climb(readout, first.beside(drawn), _short(steps), largest, 0.1, step_done)
    for _ in range(ROUNDS):
        kept = best.extremes(starts // 20, largest)
        copies = measure(readout, _noisy(kept.X, generator), _noisy(kept.Y, generator))
        best = climb(readout, kept.beside(copies), _short(steps), largest, 0.1, step_done)
    return climb(readout, best.extremes(starts // 20, largest), steps, largest, 0.02, step_done)


def _noisy(X: Tensor, generator: torch.Generator) -> Tensor:
    """COPIES of every X, with noise NOISE times as large as X itself."""
    copies = X.repeat(COPIES, 1, 1)
    size = copies.square().mean(dim=(1, 2), keepdim=True).sqrt()
    count, n, d = copies.shape
    return copies + NOISE * size * pairs.normal(count, n, d, generator)


def climb(
    readout: Aggregation, start: Measured, steps: int, largest: bool, rate: float, step_done: Callable[[], None]
) -> Measured:
    """Adam on log ratio; the best pair of each path. The matching in d(X, Y) is solved again at every step."""
    sign = 1.0 if largest else -1.0
    X, Y = start.X.clone().requires_grad_(), start.Y.clone().requires_grad_()
    best = start.where(torch.arange(len(start)))
    optimiser = torch.optim.Adam([X, Y], lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps, eta_min=1e-4)
    for _ in range(steps):
        distance = (X - align(X, Y)).flatten(1).norm(dim=1)
        moved = (apply(readout, X) - apply(readout, Y)).norm(dim=1)
        usable = (distance > LEAST_DISTANCE) & (moved > 1e-12) & moved.isfinite()
        better = usable & (sign * moved / distance > sign * best.ratio)
        for kept, value in zip((best.X, best.Y, best.distance, best.moved), (X, Y, distance, moved), strict=True):
            kept[better] = value.detach()[better]
        optimiser.zero_grad()
        gain = (moved[usable].log() - distance[usable].log()).sum()
        (-sign * gain).backward()
        for matrices in (X, Y):
            matrices.grad = torch.nan_to_num(matrices.grad, 0.0, 0.0, 0.0)  # type: ignore[arg-type]  # overflow: stay
        optimiser.step()
        schedule.step()
        step_done()
    return best


def jacobian(readout: Aggregation, X: Tensor, Y: Tensor) -> Tensor:
    """The Jacobian of φ(X) − φ(Y) in X and Y, [m, 2nd]: one copy of the pair per output, and one gradient for all."""
    m, blocks = sizes_of(readout)[1], []
    for outputs in torch.arange(m).split(max(1, MOST_NUMBERS // (10 * m))):
        copies = torch.stack([X, Y]).repeat(len(outputs), 1, 1).requires_grad_()
        images = apply(readout, copies).view(len(outputs), 2, m)
        own = (images[:, 0] - images[:, 1]).gather(1, outputs[:, None])
        (gradient,) = torch.autograd.grad(own.sum(), copies)
        blocks.append(gradient.view(len(outputs), -1))
    return torch.cat(blocks)


def meet(readout: Aggregation, pair: Pair, rounds: int = 20) -> Pair:
    """Newton's method towards φ(X) = φ(Y) from a pair that is close to it; X and Y both move, by minimum-norm steps."""
    both = torch.stack([pair.X, pair.Y])
    for _ in range(rounds):
        images = apply(readout, both)
        value = images[0] - images[1]
        if value.norm() < 1e-14 or not value.isfinite().all():
            break
        both = both - (pseudo_inverse(jacobian(readout, *both)) @ value).view_as(both)
    X, Y = both
    images = apply(readout, both)
    return Pair(X, Y, quotient_distance(X, Y), float((images[0] - images[1]).norm()))


def pseudo_inverse(matrix: Tensor) -> Tensor:
    return torch.linalg.pinv(matrix, rtol=1e-10)
