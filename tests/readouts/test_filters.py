"""γ and max filters: as many templates as the theorem asks for separate, far fewer do not."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from permlab.readouts.catalogue import build
from permlab.readouts.filters import best_places
from permlab.readouts.theory.certificate import certify


@pytest.mark.parametrize(("n", "d"), [(3, 2), (4, 2), (3, 3)])
def test_gamma_with_2nd_minus_d_outputs_shows_no_collision(n: int, d: int) -> None:
    gamma = build("gamma", d=d, max_nodes=n)
    assert gamma.out_channels == 2 * n * d - d
    certified = certify(gamma, n, samples=600, steps=24)
    assert certified.collision is None and certified.unconfirmed is None and certified.contradictions(gamma) == []
    assert certified.gradient.smallest.ratio > 1e-3 and certified.gradient.largest.ratio <= certified.upper


@pytest.mark.parametrize(("method", "few"), [("gamma", 5), ("rank_one_filters", 5), ("max_filters", 5), ("fsw", 6)])
def test_fewer_outputs_than_entries_collide(method: str, few: int) -> None:
    readout = build(method, d=2, max_nodes=3, out_channels=few)
    certified = certify(readout, 3, samples=600, steps=24)
    assert certified.collision is not None and certified.collision.distance > 1e-2
    assert certified.contradictions(readout) == []  # it does not state that it is injective


@given(st.integers(0, 1000), st.integers(1, 5))
def test_a_rank_one_template_is_a_template(seed: int, n: int) -> None:
    """Sorting and linear assignment are two ways to one number."""
    general, sorting = (build(name, 3, 5, out_channels=4, seed=seed) for name in ("max_filters", "rank_one_filters"))
    general.templates.copy_(torch.einsum("nk,dk->knd", sorting.weight, sorting.key))
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    torch.testing.assert_close(general(x), sorting(x))


def test_matching_survives_what_is_not_finite() -> None:
    scores = torch.full((2, 1, 3), float("nan")).numpy()
    assert sorted(best_places(scores, [0, 2])[:, 0].tolist())[0] >= 0
