"""Each of the paper's sentences is decided by numbers alone: first by the paper's own tables."""

from dataclasses import replace

import pytest

from permlab.platform.report.results import Kind, paper_numbers
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


@pytest.mark.parametrize(
    ("quote", "numbers"),
    [
        (
            "around 79%",
            {
                ("proteins_full", 50, "sum", "train", "acc"): 0.805,
                ("proteins_full", 50, "sum", "holdout", "acc"): 0.755,
            },
        ),
        ("dropped dramatically", {("proteins_full", 100, "augment", "holdout", "acc"): 0.97}),
        ("followed closely by the identity", {("proteins_full", 1, "augment", "train", "auc"): 0.95}),
        ("marginally better", {("qm9", 10, "augment", split, "mae"): 0.05 for split in ("train", "holdout")}),
        (
            "followed closely by the data augmentation",
            {("qm9", 100, method, "holdout_perm", "mae"): 1.0 for method in ("sum", "set2set")}
            | {("qm9", 100, "ordering", "holdout_perm", "mae"): 0.01},
        ),
        ("Coulomb Matrix", {("qm9", 100, "ordering", "train", "mae"): 0.01}),
    ],
)
def test_what_a_threshold_refuses(quote: str, numbers: dict[Kind, float]) -> None:
    (claim,) = [claim for claim in CLAIMS if quote in claim.quote]
    assert claim.holds(Means(PAPER.numbers | numbers, {})) is False


def test_an_accuracy_at_the_edge_is_around() -> None:
    (claim,) = [claim for claim in CLAIMS if "around 79%" in claim.quote]
    edge = {("proteins_full", 50, "sum", "train", "acc"): 0.81}
    assert claim.holds(Means(PAPER.numbers | edge, {})) is True


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
