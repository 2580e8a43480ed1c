"""The search for pairs (X, Y) where ‖φ(X) − φ(Y)‖ / d(X, Y) is extreme: by gradient, by Newton's method."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from permlab.readouts.base import Readout
from permlab.readouts.metric import align, quotient_distance, quotient_distances

LEAST_DISTANCE = 1e-7  # below, a ratio of float64 numbers says more about rounding than about φ
STARTS = 24


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

    def where(self, mask: Tensor) -> "Measured":
        return Measured(self.X[mask], self.Y[mask], self.distance[mask], self.moved[mask])


def apply(readout: Readout, X: Tensor) -> Tensor:
    """φ of every matrix of X [pairs, n, d] → [pairs, m]."""
    count, n, d = X.shape
    image: Tensor = readout(X.reshape(-1, d), ptr=torch.arange(count + 1) * n)
    return image


def measure(readout: Readout, X: Tensor, Y: Tensor) -> Measured:
    """Distances before and after φ; pairs nearer than LEAST_DISTANCE are left out."""
    moved = (apply(readout, X) - apply(readout, Y)).norm(dim=1)
    measured = Measured(X, Y, quotient_distances(X, Y), moved)
    return measured.where(measured.distance > LEAST_DISTANCE)


def climb(
    readout: Readout,
    start: Measured,
    steps: int,
    largest: bool,
    progress: Callable[[int], None] | None = None,
) -> Measured:
    """Adam on log ratio from the most extreme pairs that are not close; the best pair of each path.

    The matching in d(X, Y) is solved anew at every step.
    """
    sign = 1.0 if largest else -1.0
    apart = start.where(start.distance > 0.1)
    chosen = (sign * apart.ratio).argsort(descending=True)[: STARTS // 2]
    chosen = torch.cat([chosen, torch.arange(min(len(apart), STARTS - len(chosen)))])
    X = apart.X[chosen].clone().requires_grad_()
    Y = apart.Y[chosen].clone().requires_grad_()
    best = Measured(*(tensor[chosen].clone() for tensor in (apart.X, apart.Y, apart.distance, apart.moved)))
    optimiser = torch.optim.Adam([X, Y], lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps, eta_min=1e-4)
    for step in range(steps):
        distance = (X - align(X, Y)).flatten(1).norm(dim=1)
        moved = (apply(readout, X) - apply(readout, Y)).norm(dim=1)
        usable = (distance > LEAST_DISTANCE) & (moved > 1e-12)
        better = usable & (sign * moved / distance > sign * best.ratio)
        for kept, value in zip((best.X, best.Y, best.distance, best.moved), (X, Y, distance, moved), strict=True):
            kept[better] = value.detach()[better]
        optimiser.zero_grad()
        gain = (moved[usable].log() - distance[usable].log()).sum()
        (-sign * gain).backward()
        optimiser.step()
        schedule.step()
        if progress:
            progress(step + 1)
    return best


def meet(readout: Readout, pair: Pair, rounds: int = 20) -> Pair:
    """Newton's method towards φ(X) = φ(Y) from a pair that is nearly there, X and Y both free, shortest steps."""

    def difference(both: Tensor) -> Tensor:
        images = apply(readout, both)
        return images[0] - images[1]

    both = torch.stack([pair.X, pair.Y])
    for _ in range(rounds):
        value = difference(both)
        if value.norm() < 1e-14:
            break
        jacobian = torch.autograd.functional.jacobian(difference, both).flatten(1)  # [m, 2nd]
        both = both - (torch.linalg.pinv(jacobian, rtol=1e-10) @ value).view_as(both)
    X, Y = both
    return Pair(X, Y, quotient_distance(X, Y), float(difference(both).norm()))
