"""The tests of the report, as pure functions of numbers.

Random splits of one data set share most of their graphs, so the differences of two methods over seeds are not
independent, and a plain paired t-test rejects too often. Nadeau and Bengio (2003) replace 1/n by 1/n + n_test/n_train.
Friedman's test and Nemenyi's critical difference are as in Demšar (2006): a block is a data set, never a seed or a
width of the same one. `permlab bench level` measures how often each of them is wrong.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import optimize, stats

LEAST_SEEDS = 3  # no test with fewer
LEAST_BLOCKS = 3  # fewest data sets for Friedman's test
ALPHA = 0.05
POWER = 0.8  # the share of repetitions in which a difference of the size that counts as detectable is found


@dataclass(frozen=True)
class PairedTest:
    """Two methods over the same seeds: mean difference, t, its two-sided p, Hedges' g of the pairs, standard error."""

    seeds: int
    difference: float
    t: float
    p: float
    g: float
    error: float


def paired_test(
    first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray, test_share: float
) -> PairedTest | None:
    """first − second, seed by seed: t = mean / (s √(1/n + test_share)). None with too few seeds.

    `test_share` is n_test / n_train where every seed has a random split of its own. It is 0, which gives the ordinary
    paired t-test, where all seeds have the same split: its runs are independent, and the test is about that split.
    """
    difference = np.asarray(first, float) - np.asarray(second, float)
    n = len(difference)
    if n < LEAST_SEEDS:
        return None
    mean, spread = float(difference.mean()), float(difference.std(ddof=1))
    if spread == 0:  # the same difference in every seed
        same = mean == 0
        t, g = (0.0, 0.0) if same else (math.copysign(math.inf, mean), mean)
        return PairedTest(n, mean, t, float(same), g, 0.0)
    error = spread * math.sqrt(1 / n + test_share)
    p = float(2 * stats.t.sf(abs(mean / error), n - 1))
    return PairedTest(n, mean, mean / error, p, mean / spread * (1 - 3 / (4 * (n - 1) - 1)), error)


def detectable(error: float, seeds: int, alpha: float = ALPHA) -> float:
    """The true difference that a paired test with this standard error finds in POWER of all repetitions.

    With a true difference δ the test's t has the noncentral t-distribution with n − 1 degrees of freedom and
    noncentrality δ / error; it is found where |t| exceeds the two-sided critical value of `alpha`. `error` comes from
    the same few seeds, so the result is as rough as they are.
    """
    return error * _noncentrality(seeds, alpha)


@cache
def _noncentrality(seeds: int, alpha: float) -> float:
    """The noncentrality at which the two-sided t-test at `alpha` has the power POWER."""
    freedom = seeds - 1
    critical = float(stats.t.ppf(1 - alpha / 2, freedom))

    def lacking(shift: float) -> float:  # the part below −critical is far less than 1 % of it
        return float(stats.nct.sf(critical, freedom, shift)) - POWER

    high = critical
    while lacking(high) < 0:
        high *= 2
    return float(optimize.brentq(lacking, 0.0, high))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: adjusted p, to be compared with α directly."""
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]


@dataclass(frozen=True)
class Ranking:
    """Methods ranked in every block (1 is best): mean ranks, Friedman's χ² and its p, Nemenyi's critical difference."""

    mean_ranks: list[float]
    blocks: int
    chi2: float
    p: float
    critical_difference: float

    def groups(self) -> list[tuple[float, float]]:
        """The longest ranges of mean rank within which no two methods differ significantly by Nemenyi's test."""
        ranks = sorted(self.mean_ranks)
        ranges: list[tuple[float, float]] = []
        for i, low in enumerate(ranks):
            high = max(rank for rank in ranks[i:] if rank - low <= self.critical_difference)
            if high > low and (not ranges or high > ranges[-1][1]):
                ranges.append((low, high))
        return ranges


def mean_ranks(scores: np.ndarray, higher_is_better: bool) -> list[float]:
    """Mean ranks of scores [blocks, methods]; 1 is best, equal scores share their ranks."""
    ranks: list[float] = stats.rankdata(-scores if higher_is_better else scores, axis=1).mean(axis=0).tolist()
    return ranks


def friedman(scores: np.ndarray, higher_is_better: bool) -> Ranking | None:
    """scores [blocks, methods]. None with fewer than three blocks or methods.

    χ² errs on the safe side with few blocks; Iman and Davenport's F does not (19 % with three blocks and methods).
    """
    blocks, methods = scores.shape
    if blocks < LEAST_BLOCKS or methods < 3:
        return None
    with np.errstate(invalid="ignore"):  # 0 / 0 if all scores are equal
        test = stats.friedmanchisquare(*scores.T)
    chi2, p = (0.0, 1.0) if math.isnan(test.statistic) else (float(test.statistic), float(test.pvalue))
    return Ranking(mean_ranks(scores, higher_is_better), blocks, chi2, p, nemenyi(methods, blocks))


@cache
def nemenyi(methods: int, blocks: int, alpha: float = ALPHA) -> float:
    """Mean ranks further apart differ significantly: q_α √(k(k+1) / 6N), q of the studentised range over √2."""
    q = float(stats.studentized_range.ppf(1 - alpha, methods, math.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * blocks))


def prediction_half_width(values: Sequence[float]) -> float | None:
    """Half the width of the 95 % interval for one more run: t · s · √(1 + 1/n)."""
    n = len(values)
    if n < 2:
        return None
    return float(stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) * math.sqrt(1 + 1 / n))
