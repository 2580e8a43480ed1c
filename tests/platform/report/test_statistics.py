"""The tests of the report against published examples and SciPy."""

import math
from itertools import permutations, product

import numpy as np
import pytest
from scipy import stats

from permlab.platform.report.statistics import (
    Ranking,
    detectable,
    friedman,
    holm,
    nemenyi,
    paired_test,
    prediction_half_width,
)

FIRST, SECOND = [0.81, 0.79, 0.84, 0.80, 0.83], [0.78, 0.80, 0.79, 0.77, 0.80]

# Demšar (2006), table 6: AUC of C4.5, C4.5+m, C4.5+cf, C4.5+m+cf on 14 data sets.
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],  # both printed as 0.975, but ranked 2 and 3
        [0.957, 0.978, 0.946, 0.970],
    ]
)


def test_without_overlap_the_corrected_test_is_the_paired_t_test() -> None:
    ours, scipy = paired_test(FIRST, SECOND, 0.0), stats.ttest_rel(FIRST, SECOND)
    assert ours is not None
    assert (ours.t, ours.p) == (pytest.approx(scipy.statistic), pytest.approx(scipy.pvalue))
    assert ours.difference == pytest.approx(np.mean(FIRST) - np.mean(SECOND))


def test_overlap_widens_the_variance_as_nadeau_and_bengio_say() -> None:
    """By hand: differences .03 −.01 .05 .03 .03, mean .026, variance .00048; t = .026 / √((1/5 + 200/913) · .00048)."""
    ours = paired_test(FIRST, SECOND, 200 / 913)
    assert ours is not None
    assert ours.t == pytest.approx(0.026 / math.sqrt((0.2 + 200 / 913) * 0.00048))
    assert ours.p == pytest.approx(2 * stats.t.sf(ours.t, 4)) and ours.p > stats.ttest_rel(FIRST, SECOND).pvalue
    assert ours.g == pytest.approx(0.026 / math.sqrt(0.00048) * (1 - 3 / 15))


def test_with_fewer_than_three_seeds_there_is_no_test() -> None:
    assert paired_test(FIRST[:2], SECOND[:2], 0.2) is None
    assert paired_test(FIRST[:3], SECOND[:3], 0.2) is not None


@pytest.mark.parametrize(("second", "p"), [(FIRST, 1.0), ([x - 0.25 for x in (1.0, 2.0, 3.0, 4.0, 5.0)], 0.0)])
def test_differences_without_spread(second: list[float], p: float) -> None:
    first = FIRST if p else [1.0, 2.0, 3.0, 4.0, 5.0]
    result = paired_test(first, second, 0.2)
    assert result is not None and result.p == p


@pytest.mark.parametrize(("n", "delta"), [(34, 0.4950), (10, 0.9960), (5, 1.6820), (200, 0.1991)])
def test_what_can_be_detected_is_rs_power_t_test(n: int, delta: float) -> None:
    """power.t.test(n, power = 0.8, sd = 1, type = "paired") in R."""
    assert detectable(1 / math.sqrt(n), n) == pytest.approx(delta, abs=5e-4)


def test_a_detectable_difference_is_found_four_times_in_five() -> None:
    """By the corrected test itself, on differences that are correlated as it assumes: ρ = share / (1 + share)."""
    n, share, rng = 5, 0.25, np.random.default_rng(0)
    rho = share / (1 + share)
    shared, own = rng.standard_normal((4000, 1)), rng.standard_normal((4000, n))
    noise = math.sqrt(rho) * shared + math.sqrt(1 - rho) * own
    error = math.sqrt((1 - rho) * (1 / n + share))  # the standard error that the test estimates
    tests = [paired_test(row + detectable(error, n), np.zeros(n), share) for row in noise]
    assert np.mean([test.p < 0.05 for test in tests if test]) == pytest.approx(0.8, abs=0.03)


def test_fewer_seeds_and_a_stricter_level_detect_less() -> None:
    assert detectable(1.0, 3) > detectable(1.0, 5) > detectable(1.0, 50) > 2.8
    assert detectable(1.0, 5, 0.05 / 42) > detectable(1.0, 5) and detectable(0.0, 5) == 0


def test_holm_matches_p_adjust_of_r() -> None:
    """p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") gives 0.03 0.06 0.06 0.02."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0] and holm([]) == []


def test_friedman_on_demsars_example() -> None:
    """His mean ranks are 3.143, 2.000, 2.893, 1.964; with those and no correction for ties χ² = 9.28."""
    ranking = friedman(DEMSAR, higher_is_better=True)
    assert ranking is not None
    assert ranking.mean_ranks == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    k, blocks = 4, 14
    untied = 12 * blocks / (k * (k + 1)) * (sum(r**2 for r in ranking.mean_ranks) - k * (k + 1) ** 2 / 4)
    assert untied == pytest.approx(9.28, abs=5e-3)
    tied = 3 * (2**3 - 2) + (4**3 - 4)  # a pair in three of the rows, all four in one
    assert ranking.chi2 == pytest.approx(untied / (1 - tied / (blocks * k * (k**2 - 1))))
    assert ranking.p == pytest.approx(stats.chi2.sf(ranking.chi2, k - 1)) and ranking.p < 0.05
    assert ranking.critical_difference == nemenyi(k, blocks)


def test_with_few_data_sets_friedman_errs_on_the_safe_side() -> None:
    """All 216 ways to rank three equal methods on three data sets."""
    rows = list(permutations((1.0, 2.0, 3.0)))
    alarms = [friedman(np.array(scores), True).p < 0.05 for scores in product(rows, repeat=3)]  # type: ignore[union-attr]
    assert len(alarms) == 216 and sum(alarms) == 6  # only where all three agree


def test_lower_is_better_reverses_the_ranks() -> None:
    up, down = friedman(DEMSAR, True), friedman(DEMSAR, False)
    assert up is not None and down is not None
    assert np.add(up.mean_ranks, down.mean_ranks) == pytest.approx(5.0)


@pytest.mark.parametrize(("methods", "q"), [(2, 1.960), (4, 2.569), (7, 2.949), (10, 3.164)])
def test_nemenyis_critical_values_are_demsars(methods: int, q: float) -> None:
    unit = math.sqrt(methods * (methods + 1) / (6 * 14))
    assert nemenyi(methods, 14) == pytest.approx(q * unit, abs=1e-3 * unit)


def test_nemenyis_critical_difference_of_demsars_example() -> None:
    """CD = 2.569 √(4·5 / (6·14)) = 1.25 at 0.05, and 1.12 at 0.10."""
    assert nemenyi(4, 14) == pytest.approx(1.25, abs=5e-3)
    assert nemenyi(4, 14, alpha=0.10) == pytest.approx(1.12, abs=5e-3)


def test_groups_are_the_longest_stretches_within_the_critical_difference() -> None:
    ranking = Ranking([1.0, 2.0, 2.5, 6.0], 14, 9.0, 0.02, critical_difference=1.25)
    assert ranking.groups() == [(1.0, 2.0), (2.0, 2.5)]


def test_no_ranking_of_two_methods_or_of_two_blocks() -> None:
    assert friedman(DEMSAR[:, :2], True) is None and friedman(DEMSAR[:2], True) is None


def test_methods_that_never_differ_rank_alike() -> None:
    ranking = friedman(np.ones((5, 3)), True)
    assert ranking is not None and ranking.mean_ranks == [2.0, 2.0, 2.0] and ranking.p == 1.0


def test_the_prediction_interval_contains_95_percent_of_new_runs() -> None:
    draws = np.random.default_rng(0).standard_normal((4000, 6))
    inside = [abs(row[5] - row[:5].mean()) <= prediction_half_width(row[:5]) for row in draws]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.015)
    assert prediction_half_width([1.0]) is None
