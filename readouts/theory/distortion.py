"""The distortion b₀/a₀ of β_A on matrices of n rows, for keys of several kinds.

b₀ = s₁(A) exactly: sorting brings numbers no farther apart than their best matching, so ‖β_A(X) − β_A(Y)‖ ≤ ‖(X − ΠY)A‖
for every Π; and where the rows of X and X + V are in the same order in all columns, the difference is VA, V any small
matrix. a₀ lies between a certified bound (`lower_bound`) and the smallest ratio that a search finds. For every key
b₀/a₀ = Ω(√n), and some keys have O(n²) (arXiv 2510.22186).
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from math import inf, pi
from typing import Any

import numpy as np
import torch
from torch import Tensor

from permlab.readouts.errors import ReadoutError
from permlab.readouts.sorting import Ordering
from permlab.readouts.theory import confirm, pairs
from permlab.readouts.theory.keys import full_spark, gaussian, identity_plus_ones
from permlab.readouts.theory.lower_bound import MOST_ROWS, columns_to_share, least_over_patterns, shared_columns
from permlab.readouts.theory.metric import align
from permlab.readouts.theory.search import Measured, climb, explore, measure
from permlab.readouts.theory.universality import check_universal, decidable

COARSE, FINE = 2.0**8, 2.0**24  # keys are rounded to multiples of 1/COARSE where ranks have to be exact
ROUNDS, STEPS, POOL = 25, 20, 400  # of `optimised`


@dataclass(frozen=True)
class Distortion:
    """What is known of a₀ and b₀ of one key."""

    kind: str
    n: int
    key: np.ndarray  # [d, D]
    b0: float
    certified: float  # ≤ a₀; 0: no positive bound is known
    proof: str  # of the certified bound
    smallest: float  # ratio found, ≥ a₀; 0: a pair collides
    largest: float  # ratio found, ≤ b₀

    @property
    def at_least(self) -> float:
        """b₀/a₀ is at least this: a pair shows it."""
        return self.b0 / self.smallest if self.smallest else inf

    @property
    def at_most(self) -> float:
        """b₀/a₀ is at most this: the certified bound."""
        return self.b0 / self.certified if self.certified else inf

    @property
    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self) | {"key": self.key.tolist()}

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Distortion":
        values = {field.name: document[field.name] for field in fields(cls)}
        return cls(**values | {"key": np.array(document["key"])})


def key_size(n: int, d: int) -> int:
    """The columns from which `shared_columns` certifies every full spark key."""
    return (d - 1) * columns_to_share(n) + 1


def rounded(key: Tensor, n: int) -> np.ndarray:
    grid = COARSE if n <= MOST_ROWS else FINE
    return (key * grid).round().numpy() / grid


def spread(d: int, D: int, seed: int = 0) -> Tensor:
    """D unit columns as far apart as lines can be: for d = 2 at angles πj/D; else by gradient on the largest
    |⟨a_j, a_k⟩|, which equiangular lines minimise where they exist.
    """
    if d == 2:
        angles = torch.arange(D, dtype=torch.float64) * pi / D
        return torch.stack([angles.cos(), angles.sin()])
    columns = gaussian(d, D, seed).requires_grad_()
    optimiser = torch.optim.Adam([columns], lr=0.02)
    for power in torch.linspace(4, 60, 600).tolist():
        optimiser.zero_grad()
        unit = columns / columns.norm(dim=0)
        (unit.T @ unit).fill_diagonal_(0).abs().pow(power).sum().log().div(power).backward()
        optimiser.step()
    return (columns / columns.norm(dim=0)).detach()


KINDS: dict[str, Callable[[int, int, int, int], Tensor]] = {  # (n, d, D, seed) → key
    "generic": lambda n, d, D, seed: gaussian(d, D, seed),
    "full spark": lambda n, d, D, seed: full_spark(d, D, seed),
    "[I | 1]": lambda n, d, D, seed: identity_plus_ones(d),
    "equiangular": lambda n, d, D, seed: spread(d, D, seed),
    "optimised": lambda n, d, D, seed: optimised(n, d, D, seed),
}
DRAWN = ("generic", "full spark")  # kinds that differ from seed to seed


@dataclass(frozen=True)
class Question:
    """The distortion of which key? `columns` None: `key_size`; `seconds` for all patterns; `steps` by gradient."""

    kind: str
    n: int
    d: int
    columns: int | None = None
    seed: int = 0
    seconds: float = 20.0
    steps: int = 120

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ReadoutError(f"unknown kind of key {self.kind!r}; choose from {', '.join(KINDS)}")

    @property
    def name(self) -> str:
        kind = "".join(letter if letter.isalnum() else "-" for letter in self.kind)
        return f"n{self.n}-d{self.d}-{kind}-D{self.columns or 'all'}-seed{self.seed}"

    @property
    def identity(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def key(self) -> np.ndarray:
        return rounded(KINDS[self.kind](self.n, self.d, self.columns or key_size(self.n, self.d), self.seed), self.n)


def answer(question: Question) -> dict[str, Any]:
    """As JSON."""
    key = question.key
    distortion = bounds(key, question.n, question.seed, question.seconds, question.steps, question.kind)
    return {"final": True} | distortion.document


def bounds(
    key: np.ndarray, n: int, seed: int = 0, seconds: float = 20.0, steps: int = 120, kind: str = "given"
) -> Distortion:
    """b₀ and both sides of a₀ of a key that is rounded."""
    b0 = float(np.linalg.norm(key, 2))
    if key.shape[1] < key_size(n, len(key)) and decidable(torch.from_numpy(key), n):
        verdict = check_universal(key, n, budget=100_000, seconds=seconds)
        if verdict.universal is False:
            return Distortion(kind, n, key, b0, 0.0, "a pair collides", 0.0, extreme_ratios(key, n, seed, 1)[1])
    smallest, largest = extreme_ratios(key, n, seed, steps)
    certified, proof = shared_columns(key, n), "shared columns"
    if n <= MOST_ROWS:
        least = least_over_patterns(key, n, smallest, seconds)
        if least.bound > certified:
            certified, proof = least.bound, f"{least.patterns:,} patterns{'' if least.complete else ' (partial)'}"
    return Distortion(kind, n, key, b0, certified, proof if certified else "none", smallest, largest)


def extreme_ratios(key: np.ndarray, n: int, seed: int, steps: int) -> tuple[float, float]:
    """The smallest and the largest ratio that sampling and gradients find, in many digits."""
    readout = _readout(key, n)
    sampled = measure(readout, *pairs.draw(1200, n, len(key), seed))
    ends = []
    for largest in (False, True):
        best = explore(readout, sampled, steps, largest, seed, _nothing) if steps > 1 else sampled
        ends.append(confirm.precisely(readout, best.extremes(1, largest)[0]).ratio)
    return ends[0], ends[1]


def _nothing() -> None:
    pass


def _readout(key: np.ndarray, n: int) -> Ordering:
    return Ordering(len(key), n, key=torch.from_numpy(key)).double()


def optimised(n: int, d: int, D: int, seed: int = 0, rounds: int | None = None) -> Tensor:
    """A key of unit s₁ whose smallest ratio is large: gradient on A against a growing pool of the worst pairs for it.

    From the spread key; the best key of all rounds, each judged by its own search.
    """
    key = spread(d, D, seed)
    best, best_ratio = key, -inf
    pool: Measured | None = None
    for turn in range(ROUNDS if rounds is None else rounds):
        worst = _worst(rounded(key, n), n, seed + turn)
        ratio = float(worst.ratio.min()) / float(torch.linalg.matrix_norm(key, 2))
        if ratio > best_ratio:
            best, best_ratio = key.clone(), ratio
        pool = worst if pool is None else pool.beside(worst)
        pool = measure(_readout(key.numpy(), n), pool.X, pool.Y).extremes(POOL, largest=False)
        key = _improved(key, pool)
    return best / torch.linalg.matrix_norm(best, 2) * D**0.5


def _worst(key: np.ndarray, n: int, seed: int) -> Measured:
    readout = _readout(key, n)
    sampled = measure(readout, *pairs.draw(600, n, len(key), seed))
    paths = climb(readout, sampled.where(sampled.distance > 0.1).extremes(60, largest=False), 60, False, 0.1, _nothing)
    return climb(readout, paths.extremes(20, largest=False), 60, False, 0.02, _nothing)


def _improved(key: Tensor, pool: Measured) -> Tensor:
    """Gradient steps on log min ratio − log s₁, the minimum softened."""
    A = key.clone().requires_grad_()
    optimiser = torch.optim.Adam([A], lr=0.01)
    Y = align(pool.X, pool.Y)
    for _ in range(STEPS):
        optimiser.zero_grad()
        images = [(side @ A).sort(dim=1).values for side in (pool.X, Y)]
        ratio = (images[0] - images[1]).flatten(1).norm(dim=1) / pool.distance
        soft = -torch.logsumexp(-30 * ratio.log(), dim=0) / 30
        (torch.linalg.matrix_norm(A, 2).log() - soft).backward()
        optimiser.step()
    return A.detach()
