"""Train, validation and holdout as functions of the seed.

Graphs of one group (the same molecule twice) always stay on one side.
"""

from typing import NamedTuple

import numpy as np

from permlab.datasets.errors import DataUsageError
from permlab.datasets.randomness import random_order

_HOLDOUT, _VALIDATION = 1, 2  # entropy that separates the two cuts
ATTEMPTS = 20


class Split(NamedTuple):
    """Positions of graphs in the data set, ascending."""

    train: np.ndarray
    validation: np.ndarray
    holdout: np.ndarray


def split(
    group: np.ndarray,
    holdout: int | float,
    seed: int,
    validation: int | float = 0,
    validation_seed: int | None = None,
) -> Split:
    """Cut the holdout from all graphs, then the validation part from what is left for training.

    `group` [G] names each graph's group. A size is a count (int), met exactly, or a fraction (float) of what it is cut
    from, met as closely as whole groups allow. The holdout does not depend on `validation`: tuning and the final run
    hold out the same graphs. `validation_seed` (default: the seed) draws other validation parts with the same holdout.
    """
    if seed < 0:
        raise DataUsageError(f"seed={seed} is negative; choose 0 or more")
    everything = np.arange(len(group))
    held = _cut(group, "holdout", holdout, (seed, _HOLDOUT))
    rest = np.setdiff1d(everything, held, assume_unique=True)
    if not len(rest):
        raise DataUsageError(
            f"holdout={holdout} takes all {len(group)} graphs, which are one group and cannot be separated; "
            "set it to 0, or add other graphs"
        )
    inner = _cut(
        group[rest], "validation", validation, (seed if validation_seed is None else validation_seed, _VALIDATION)
    )
    train = np.setdiff1d(rest, rest[inner], assume_unique=True)
    if not len(train):
        raise DataUsageError("nothing is left to train on; make holdout or validation smaller")
    return Split(train, rest[inner], held)


def size_of(name: str, size: int | float, available: int) -> int:
    if isinstance(size, float) and not 0 <= size < 1:
        raise DataUsageError(f"{name}={size} is not a fraction from 0 to below 1; give a count as a whole number")
    count = round(size * available) if isinstance(size, float) else size
    if not 0 <= count < available:
        raise DataUsageError(f"{name}={size} asks for {count} of {available} graphs; choose 0 to {available - 1}")
    return count


def _cut(group: np.ndarray, name: str, size: int | float, entropy: tuple[int, int]) -> np.ndarray:
    """Positions of `size` graphs, whole groups only, ascending.

    Takes groups in random order, as many as fit; if the next one is too large, later and smaller ones fill up. If a
    count cannot be met that way, other orders are tried.
    """
    count = size_of(name, size, len(group))
    _, member, sizes = np.unique(group, return_inverse=True, return_counts=True)
    for attempt in range(ATTEMPTS):
        order = random_order(len(sizes), *entropy, *([attempt] if attempt else []))
        chosen = _fill(sizes, order, count)
        reached = int(sizes[chosen].sum())
        if reached == count or isinstance(size, float):
            break
    else:
        raise DataUsageError(
            f"{name}={count} graphs cannot be cut off without splitting a group of equal graphs; "
            f"{reached} can; or give a fraction"
        )
    if count and not len(chosen):
        chosen = order[[np.argmin(sizes[order])]]
    taken = np.zeros(len(sizes), dtype=bool)
    taken[chosen] = True
    return np.flatnonzero(taken[member])


def _fill(sizes: np.ndarray, order: np.ndarray, count: int) -> np.ndarray:
    """Groups in this order whose sizes add up to at most `count`, each taken if it still fits."""
    fits = np.cumsum(sizes[order]) <= count
    chosen = list(order[fits])
    missing = count - int(sizes[order[fits]].sum())
    for candidate in order[~fits]:
        if not missing:
            break
        if sizes[candidate] <= missing:
            chosen.append(candidate)
            missing -= int(sizes[candidate])
    return np.array(chosen, dtype=np.int64)
