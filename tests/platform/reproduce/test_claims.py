"""Each of the paper's sentences is decided by numbers alone: first by the paper's own tables."""

from dataclasses import replace

import pytest

from permlab.platform.report.results import paper_numbers
from permlab.platform.reproduce.claims import CLAIMS, Claim, Means
from permlab.readouts.names import PAPER_METHODS

PAPER = Means(dict(paper_numbers()), {})
WAVES = {
    ("proteins_full", d, method): 0.05 * (method in ("identity", "augment"))
    for d in (10, 50, 100)
    for method in PAPER_METHODS
}
NOT_IN_ITS_TABLES = ["followed closely by the data augmentation method"]  # sum and set2set are between the two
each = pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.quote[:40])


@each
def test_the_papers_own_tables_bear_it_out(claim: Claim) -> None:
    assert claim.holds(replace(PAPER, oscillation=WAVES)) is (claim.quote not in NOT_IN_ITS_TABLES)


@each
def test_it_can_fail_and_it_says_when_a_number_is_missing(claim: Claim) -> None:
    """All methods alike: then no method is better, worse, or drops more."""
    alike = Means(dict.fromkeys(PAPER.numbers, 0.5), dict.fromkeys(WAVES, 0.1))
    upside_down = Means(
        {place: 1.5 - value for place, value in PAPER.numbers.items()}, {k: -v for k, v in WAVES.items()}
    )
    permuted = {place: value * (1 + (place[3] == "holdout_perm")) for place, value in PAPER.numbers.items()}
    assert False in (claim.holds(alike), claim.holds(upside_down), claim.holds(Means(permuted, WAVES)))
    assert claim.holds(Means({}, {})) is None


def test_oscillations_need_curves() -> None:
    assert [claim.holds(PAPER) for claim in CLAIMS if "oscillations" in claim.quote] == [None]
