"""The fewest columns with which an integer key is universal: keys, and their proofs in pieces that run anywhere.

A generic key is one outside a set of measure zero. For generic keys the verdict comes from a random key modulo a large
prime, and is wrong with a probability that is known and tiny (`decide_generic`). For keys [I | Ã] of random integers
verdicts are exact. Small integers may be special: full spark alone is not enough below n(d−1) + 1 columns.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import combinations
from math import comb, factorial
from time import monotonic
from typing import Any

import numpy as np

from permlab.readouts.checks import check_size
from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory.exact_pairs import determinant, rational
from permlab.readouts.theory.exact_search import MAX_ROWS, decide, decide_generic, largest_entry
from permlab.readouts.theory.keys import full_spark_size, universal_size

LARGEST_ENTRY, SMALLEST_ENTRY = 99, 2
MAX_ROOTS, MAX_MINORS, MAX_WIDTH = 10**6, 20_000, 20
PIECES = 16  # of a proof


@lru_cache(maxsize=100)
def integer_key(n: int, d: int, D: int, seed: int = 0) -> np.ndarray:
    """[I | Ã] with random integers, as large as exact arithmetic for n rows allows; full spark. Keys of more columns
    begin with those of fewer.
    """
    check_least(n, d)
    bound, rng = min(LARGEST_ENTRY, largest_entry(n, d)), np.random.default_rng([seed, n, d])
    key, attempts = np.eye(d), 0
    while key.shape[1] < D:
        attempts += 1
        if attempts > 100_000:
            raise ReadoutError(f"no full spark key of {D} columns has entries of −{bound} … {bound} (n = {n}, d = {d})")
        longer = np.column_stack([key, rng.integers(-bound, bound + 1, d)])
        if is_full_spark_exactly(longer, last=True):
            key = longer
    key.setflags(write=False)
    return key


def is_full_spark_exactly(key: np.ndarray, last: bool = False) -> bool:
    """Are any d columns of an integer key independent? `last`: only those that the last one is part of."""
    d, D = key.shape
    exact = rational(key.T)
    rest = D - 1 if last else D
    subsets = ((*J, D - 1) for J in combinations(range(rest), d - 1)) if last else combinations(range(D), d)
    return all(determinant([exact[j] for j in J]) != 0 for J in subsets)


def check_least(n: int, d: int) -> None:
    check_size("n", n, most=MAX_ROWS)
    check_size("d", d)
    if not _within_reach(n, d):
        widest = max(width for width in range(1, MAX_WIDTH) if _within_reach(n, width))
        raise ReadoutError(f"n = {n}, d = {d} is too large a search: d must be at most {widest} for n = {n}")


def _within_reach(n: int, d: int) -> bool:
    """Few roots, few minors to check for full spark, and room for entries."""
    few = factorial(n) ** max(0, d - 2) <= MAX_ROOTS and comb(n * (d - 1), d - 1) <= MAX_MINORS
    return d < MAX_WIDTH and few and largest_entry(n, d) >= SMALLEST_ENTRY


@dataclass(frozen=True)
class Piece:
    """Part of the proof that a key is universal for n rows: the integer key of a seed, or the generic one."""

    n: int
    d: int
    D: int
    seed: int
    generic: bool
    part: int  # of PIECES

    @property
    def name(self) -> str:
        return f"n{self.n}-d{self.d}-{'generic' if self.generic else 'seed'}{self.seed}-D{self.D}-{self.part:02d}"

    @property
    def key(self) -> np.ndarray | None:
        return None if self.generic else integer_key(self.n, self.d, self.D, self.seed)

    @property
    def identity(self) -> dict[str, Any]:
        return asdict(self) | {"key": _integers(self.key)}


def run_piece(piece: Piece, seconds: float = float("inf")) -> dict[str, Any]:
    """The verdict on one part, as JSON: universal true, false with a pair that collides, or null if time ran out."""
    started = monotonic()
    part = (piece.part, PIECES)
    if (key := piece.key) is None:
        decision = decide_generic(piece.n, piece.d, piece.D, piece.seed, seconds, part)
    else:
        decision = decide(key, piece.n, seconds=seconds, part=part)
    pair = decision.pair and [[[str(entry) for entry in row] for row in matrix] for matrix in decision.pair]
    verdict = {
        "universal": decision.universal,
        "final": decision.universal is not None,
        "visited": decision.visited,
        "pair": pair,
    }
    return verdict | {"seconds": round(monotonic() - started, 3)}


@dataclass(frozen=True)
class Verdict:
    """On one key: `universal` is None if it is open. `visited` is the size of the proof, or of the search."""

    D: int
    universal: bool | None
    visited: int
    pair: list[list[list[str]]] | None
    seconds: float


def _integers(key: np.ndarray | None) -> list[list[int]] | None:
    return None if key is None else key.astype(int).tolist()


Run = Callable[[list[Piece]], Iterable[dict[str, Any]]]


def verdict_of(n: int, d: int, D: int, seed: int, generic: bool, run: Run) -> Verdict:
    """From all pieces, in whatever order `run` returns them; it is not asked for more after a pair that collides."""
    visited, seconds, complete = 0, 0.0, True
    for result in run([Piece(n, d, D, seed, generic, part) for part in range(PIECES)]):
        visited, seconds = visited + result["visited"], seconds + result["seconds"]
        if result["universal"] is False:
            return Verdict(D, False, visited, result["pair"], seconds)
        complete = complete and result["universal"] is True
    return Verdict(D, True if complete else None, visited, None, seconds)


def least_columns(n: int, d: int, seed: int, generic: bool, run: Run) -> "Least":
    """The smallest D that is not refuted, and the largest that is (None for D < d)."""
    check_least(n, d)
    below = None
    for D in range(d, full_spark_size(d, n) + 1):
        verdict = verdict_of(n, d, D, seed, generic, run)
        if verdict.universal is not False:
            break
        below = verdict
    return Least(n, d, seed, generic, verdict, below)


@dataclass(frozen=True)
class Least:
    """The fewest columns for one seed, beside what is proved for all full spark keys."""

    n: int
    d: int
    seed: int
    generic: bool
    least: Verdict
    below: Verdict | None

    @property
    def enough(self) -> int:
        """Every full spark key with so many columns is universal."""
        return full_spark_size(self.d, self.n)

    @property
    def theorem(self) -> int:
        """The columns of Theorem 3.9."""
        return universal_size(self.d, self.n)

    @property
    def document(self) -> dict[str, Any]:
        """As JSON, with everything that is needed to check it: the key, and the pair that refutes one column less."""
        key = None if self.generic else _integers(integer_key(self.n, self.d, self.least.D, self.seed))
        sizes = {
            "n": self.n,
            "d": self.d,
            "generic": self.generic,
            "seed": self.seed,
            "D": self.least.D,
            "decided": self.least.universal is True,
        }
        bounds = {"full_spark": self.enough, "theorem": self.theorem}
        below = self.below and {"D": self.below.D, "visited": self.below.visited, "pair": self.below.pair}
        return (
            sizes | bounds | {"visited": self.least.visited, "seconds": self.least.seconds, "key": key, "below": below}
        )
