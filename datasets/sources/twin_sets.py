"""Twins: two multisets of points that some readouts cannot tell apart. Points are isolated nodes.

Coordinates are dyadic where the maths allows it, so that sums that are equal on paper are equal in floating point.
"""

from itertools import product

import numpy as np
from numpy.random import Generator

from permlab.datasets.errors import DataUsageError

Graph = tuple[np.ndarray, np.ndarray]  # x [n, r], edges [2, E]
NO_EDGES = np.zeros((2, 0), dtype=np.int64)
MOST_COLUMNS = 8  # of a key: twins have 2^(D − 1) points


def equal_moments(random: Generator, k: int, features: int) -> tuple[Graph, Graph]:
    """2^k + 2 points on a line, with equal moments up to degree k in all directions, and equal extremes.

    By Prouhet, the numbers 0 … 2^(k+1) − 1 with an even and with an odd number of binary ones have equal sums of powers
    up to k. A map t ↦ c + t·u with u > 0 keeps that, and so do common points: the two at the ends.
    """
    numbers = np.arange(2 ** (k + 1))
    odd = np.array([int(number).bit_count() % 2 for number in numbers], dtype=bool)
    ends = [-(2**k // 4) - 1, 2 ** (k + 1) + 2**k // 4]
    step = random.integers(32, 97, features)
    shift = random.integers(-64, 65, features) * 2 ** (k + 1) - step * 2**k
    twins = [np.append(numbers[part], ends)[:, None] * step + shift for part in (~odd, odd)]
    first, second = (points / 2 ** (k + 5) for points in twins)
    return (first, NO_EDGES), (second, NO_EDGES)


def key_directions(key: np.ndarray, random: Generator) -> np.ndarray:
    """One vector v_j ⟂ a_j per column of the key A [r, D], none of them 0: [D, r]."""
    towards = random.integers(1, 9, len(key))
    projected = [towards * (a @ a) - (towards @ a) * a for a in key.T]
    turned = [v if v.any() else _orthogonal(a) for v, a in zip(projected, key.T, strict=True)]
    return np.stack([v / np.abs(v).max() for v in turned])


def _orthogonal(a: np.ndarray) -> np.ndarray:
    """Some vector ⟂ a, r ≥ 2."""
    large = int(np.abs(a).argmax())
    other = (large + 1) % len(a)
    v = np.zeros(len(a))
    v[large], v[other] = -a[other], a[large]
    return v


def colliding(random: Generator, key: np.ndarray, directions: np.ndarray, gap: float) -> tuple[Graph, Graph]:
    """X ≁ Y [2^(D − 1), r] with ↓(XA) = ↓(YA) for the key A [r, D]; `gap` moves the points of Y by about that much.

    With v_j ⟂ a_j: X holds the sums of v_j over the even subsets of the columns, Y over the odd ones. To add or
    remove j swaps even and odd and does not change x·a_j. The lengths of the v_j are random and positive.
    """
    D = key.shape[1]
    chosen = np.array(list(product((False, True), repeat=D)))  # the subsets of the columns
    lengths = random.integers(32, 97, (D, 1)) / 64
    points: np.ndarray = chosen @ (directions * lengths)
    points += random.integers(-32, 33, len(key)) / 64 - points.mean(axis=0)
    odd = np.asarray(chosen.sum(axis=1) % 2 == 1)
    first, second = points[~odd], points[odd]
    if gap:
        second = second + gap * random.standard_normal(second.shape)
    return (first, NO_EDGES), (second, NO_EDGES)


def parse_key(text: str, features: int) -> np.ndarray:
    """[r, D]: `ones` ([I | 1]), `identity`, or its rows, as 1,0,2;0,1,3."""
    if text in ("ones", "identity"):
        key = np.eye(features)
        key = np.column_stack([key, np.ones(features)]) if text == "ones" else key
    else:
        try:
            key = np.array([[float(entry) for entry in row.split(",")] for row in text.split(";")])
        except ValueError:
            raise DataUsageError(
                f"key={text!r} is not ones, identity, or rows of one length such as 1,0,2;0,1,3"
            ) from None
    r, D = key.shape
    if r < 2 or not 1 < D <= MOST_COLUMNS or not np.isfinite(key).all() or not key.any(axis=0).all():
        raise DataUsageError(
            f"key={text!r} is {r} × {D}; a key has at least 2 rows (features), 2 to {MOST_COLUMNS} columns, none of 0"
        )
    return key
