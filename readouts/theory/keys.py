"""Keys A [d, D] of β_A (section 3): how to make them, and the bounds that their singular values give.

Keys are float64; `Ordering` casts them to the dtype of its input.
"""

from math import comb
from typing import Any

import numpy as np
import torch
from torch import Tensor

from permlab.readouts.checks import as_matrix, check_key, check_size
from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory.spark import MAX_MINORS, is_full_spark
from permlab.readouts.theory.universality import Universality, check_universal

__all__ = [
    "Universality",
    "check_key",
    "check_universal",
    "full_spark",
    "full_spark_size",
    "gaussian",
    "identity",
    "identity_plus",
    "identity_plus_ones",
    "is_full_spark",
    "parse_key",
    "universal_size",
]

MAX_COLUMNS = 10_000


def _check_shape(d: int, D: int) -> None:
    if d < 1:
        raise ReadoutError(f"d is {d}; a key needs d ≥ 1")
    if d > D:
        raise ReadoutError(f"D is {D}, less than d = {d}: a key needs D ≥ d")


def identity(d: int) -> Tensor:
    """I, D = d: never universal for d, n ≥ 2 (Proposition 3.6)."""
    _check_shape(d, d)
    return torch.eye(d, dtype=torch.float64)


def identity_plus(a: Any) -> Tensor:
    """[I | a], D = d + 1: separates almost every X if no a_k is 0 (Proposition 3.7).

    It separates every X only for n = 1, d = 1 or n = d = 2: two rows of d columns need D ≥ 2d − 1.
    """
    column = as_matrix("a", torch.as_tensor(a, dtype=torch.float64).reshape(1, -1))[0]
    _check_shape(column.numel(), column.numel())
    if not bool((column != 0).all()):
        raise ReadoutError(f"a has a zero at {int((column == 0).nonzero()[0])}; in [I | a] no entry may be 0")
    return torch.cat([identity(column.numel()), column[:, None]], dim=1)


def identity_plus_ones(d: int) -> Tensor:
    """[I | 1], D = d + 1: the key of section 4."""
    _check_shape(d, d)
    return identity_plus(torch.ones(d))


def gaussian(d: int, D: int, seed: int = 0) -> Tensor:
    """Independent standard normal entries: generic, so full spark with probability 1."""
    _check_shape(d, D)
    return torch.randn(d, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def full_spark(d: int, D: int, seed: int = 0) -> Tensor:
    """D unit columns in R^d, any d of them independent. Random; verified by all minors if they are few enough."""
    _check_shape(d, D)
    for attempt in range(100):
        columns = gaussian(d, D, seed + 1_000_003 * attempt)
        columns /= columns.norm(dim=0)
        if comb(D, d) > MAX_MINORS or is_full_spark(columns):
            return columns
    raise ReadoutError(f"no full spark key found for d = {d}, D = {D}: use a smaller D (d = 1 allows any)")


def parse_key(text: str, d: int, n: int, seed: int = 0) -> Tensor:
    """A key from text: ones, identity, gaussian:D, spark:D, spark (D of Theorem 3.9 for n rows), or 1,0,1;0,1,1."""
    name, _, size = text.partition(":")
    if name in ("ones", "identity") and not size:
        return identity_plus_ones(d) if name == "ones" else identity(d)
    if name == "spark" and not size:
        D = universal_size(d, min(n, 20))  # 20! exceeds the limit, and 99999999! would take hours
        if D > MAX_COLUMNS:
            raise ReadoutError(
                f"spark for n = {n}, d = {d} has {D:,} columns; the limit is {MAX_COLUMNS:,}: "
                f"spark:{full_spark_size(d, n)} is universal too"
            )
        return full_spark(d, D, seed)
    if name in ("gaussian", "spark") and size.isdecimal() and len(size) < 20:
        check_size("D", int(size), most=MAX_COLUMNS)
        return (gaussian if name == "gaussian" else full_spark)(d, int(size), seed)
    try:
        return check_key([[float(entry) for entry in row.split(",")] for row in text.split(";")], d)
    except ValueError as error:
        if isinstance(error, ReadoutError):
            raise
        raise ReadoutError(
            f"the key {text!r} is not ones, identity, gaussian:D, spark, spark:D, or rows such as 1,0,1;0,1,1"
        ) from None


def full_spark_size(d: int, n: int) -> int:
    """D = n(d−1) + 1, from which every full spark key is universal (`spark.enough_columns`)."""
    return n * (d - 1) + 1


def universal_size(d: int, n: int) -> int:
    """D = 1 + (d−1)·n!, the columns that Theorem 3.9 asks for; `full_spark_size` is enough."""
    return 1 + (d - 1) * int(np.prod(np.arange(1, n + 1), dtype=object))
