"""Pairs (X, Y) that test a readout: far apart, close together, and close to points where maps are not continuous.

Each family is a function (count, n, d, generator) → X, Y [count, n, d], float64.
"""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

Family = Callable[[int, int, int, Generator], tuple[Tensor, Tensor]]


def normal(count: int, n: int, d: int, generator: Generator) -> Tensor:
    return torch.randn(count, n, d, generator=generator, dtype=torch.float64)


def shuffled(X: Tensor, generator: Generator) -> Tensor:
    """Every X [count, n, d] with its rows in a random order."""
    order = torch.rand(X.shape[:2], generator=generator).argsort(dim=1)
    return X.gather(1, order[:, :, None].expand_as(X))


def _steps(count: int) -> Tensor:
    """Lengths from 1 down to 1e-6, [count, 1, 1]."""
    return torch.logspace(0, -6, max(count, 1), dtype=torch.float64)[:count, None, None]


def independent(count: int, n: int, d: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Two standard normal matrices, of sizes from 0.1 to 10."""
    size = torch.logspace(-1, 1, max(count, 1), dtype=torch.float64)[:count, None, None]
    return size * normal(count, n, d, generator), size * normal(count, n, d, generator)


def nearby(count: int, n: int, d: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Y = ΠX + a step in a random direction."""
    X, step = normal(count, n, d, generator), normal(count, n, d, generator)
    return X, shuffled(X + _steps(count) * step / step.flatten(1).norm(dim=1)[:, None, None], generator)


def across_a_tie(count: int, n: int, d: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Two rows almost tie in one column, in opposite orders in X and Y: a point where the order of rows changes."""
    X = normal(count, n, d, generator)
    pair, column = torch.arange(count), torch.randint(d, (count,), generator=generator)
    X[pair, -1, column] = X[pair, 0, column]
    Y, half = X.clone(), _steps(count)[:, 0, 0] / 2
    X[pair, 0, column] += half
    Y[pair, 0, column] -= half
    return X, Y


def across_zero(count: int, n: int, d: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """One row is almost 0, with opposite signs in X and Y: a point where its direction is undefined."""
    X = normal(count, n, d, generator)
    X[:, 0] *= _steps(count)[:, 0] / 2
    Y = X.clone()
    Y[:, 0] *= -1
    return X, Y


def across_equal_rows(count: int, n: int, d: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Equal rows are pulled apart in two ways that keep their mean: a point where roots of polynomials merge."""
    centre, first, second = (normal(count, size, d, generator) for size in (1, n, n))
    first, second = (centre + _steps(count) * (move - move.mean(dim=1, keepdim=True)) for move in (first, second))
    return first, second


def opposite_moves(count: int, n: int, d: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Two equal rows among the others move by v and by −v: piecewise linear sums often do not see it."""
    X, step, part = (normal(count, n, d, generator), normal(count, 1, d, generator), normal(count, 1, d, generator))
    X[:, :2] = X.mean(dim=1, keepdim=True) + 0.3 * part
    length = X.flatten(1).norm(dim=1) * (0.008 + 0.008 * torch.rand(count, generator=generator))
    move, Y = step[:, 0] * (length / step[:, 0].norm(dim=1))[:, None], X.clone()
    Y[:, 0] += move
    Y[:, 1:2] -= move[:, None]
    return X, Y


def small_integers(count: int, n: int, d: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Entries −1, 0, 1, and Y is X with every column permuted on its own: ties everywhere, equal column sums."""
    X = torch.randint(-1, 2, (count, n, d), generator=generator).double()
    order = torch.rand(count, n, d, generator=generator).argsort(dim=1)
    return X, X.gather(1, order)


FAMILIES: dict[str, Family] = {
    "independent": independent,
    "nearby": nearby,
    "across a tie": across_a_tie,
    "across zero": across_zero,
    "across equal rows": across_equal_rows,
    "small integers": small_integers,
    "opposite moves": opposite_moves,
}


def draw(samples: int, n: int, d: int, seed: int) -> tuple[Tensor, Tensor]:
    """About `samples` pairs, the same number from each family."""
    generator = torch.Generator().manual_seed(seed)
    share = -(-samples // len(FAMILIES))
    drawn = [family(share, n, d, generator) for family in FAMILIES.values()]
    return torch.cat([X for X, _ in drawn]), torch.cat([Y for _, Y in drawn])
