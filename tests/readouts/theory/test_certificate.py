"""The certificate's numbers say what the theorems say."""

import pytest
import torch

from permlab.readouts.catalogue import build
from permlab.readouts.errors import ReadoutError
from permlab.readouts.pooling import Sum
from permlab.readouts.theory.certificate import Certificate, certify, theorem_bounds
from permlab.readouts.theory.keys import full_spark
from permlab.readouts.theory.metric import quotient_distance
from permlab.readouts.theory.spark import smallest_minor


def certificate(method: str, n: int = 3, d: int = 2, **options) -> Certificate:
    readout = build(method, d=d, max_nodes=n, **options)
    certified = certify(readout, n, samples=600, steps=24)
    assert certified.contradictions(readout) == []
    return certified


def test_sort_pooling_jumps_and_beta_does_not() -> None:
    sort, ordering = certificate("sort"), certificate("ordering")
    assert sort.jump is not None and sort.jump.distance < 1e-5 and sort.jump.moved > 0.1
    assert sort.sampling.largest.ratio > 1e5
    assert ordering.jump is None
    assert ordering.sampling.largest.ratio <= ordering.upper * (1 + 1e-6) < 2


def test_the_default_key_collides_and_a_universal_key_does_not() -> None:
    collided, kept = certificate("ordering"), certificate("ordering", key=full_spark(2, 7))
    assert collided.collision is not None and collided.universality.universal is False
    readout = build("ordering", 2, 3).double()
    X, Y = collided.collision.X, collided.collision.Y
    torch.testing.assert_close(readout(X), readout(Y))
    assert quotient_distance(X, Y) == pytest.approx(collided.collision.distance) and collided.collision.distance > 0.1
    assert kept.collision is None and kept.universality.universal is True
    assert kept.lower <= kept.gradient.smallest.ratio < 0.85 * kept.sampling.smallest.ratio
    assert kept.gradient.largest.ratio == pytest.approx(kept.upper, rel=0.01)  # b₀ = s₁(A) is reached


ONCE_REFUTED = [  # true facts that float64 alone "refuted"; certify_all.py runs all sizes
    ("power_sums", 5, 1),
    ("power_sums", 8, 1),
    ("polynomial", 7, 2),
    ("alpha0", 8, 1),
    ("alpha1", 8, 1),
    ("alpha2", 8, 1),
    ("zeta0", 6, 2),
    ("zeta0", 8, 2),
    ("identity", 1, 2),
]


@pytest.mark.parametrize(("method", "n", "d"), ONCE_REFUTED)
def test_no_true_fact_is_refuted(method: str, n: int, d: int) -> None:
    readout = build(method, d=d, max_nodes=n)
    certified = certify(readout, n, steps=1)
    assert certified.contradictions(readout) == [] and certified.collision is None and certified.jump is None
    assert certified.unconfirmed is not None or method in ("identity", "alpha2")  # float64 sees a collision, still


def test_a_move_within_a_proved_bound_is_not_a_jump() -> None:
    certified = certificate("ordering", key=[[1e5, 0, 1], [0, 1e5, 1]])
    assert certified.jump is None and certified.sampling.largest.ratio <= certified.upper * (1 + 1e-9)


def test_ratios_are_those_of_their_pairs() -> None:
    certified, readout = certificate("alpha0", n=4), build("alpha0", d=2, max_nodes=4).double()
    sampling, gradient = certified.sampling, certified.gradient
    for pair in (sampling.smallest, sampling.largest, gradient.smallest, gradient.largest):
        assert pair.distance == pytest.approx(quotient_distance(pair.X, pair.Y), rel=1e-9)
        assert pair.moved == pytest.approx(float((readout(pair.X) - readout(pair.Y)).norm()), rel=1e-3, abs=1e-14)


def test_gradient_goes_beyond_sampling() -> None:
    certified = certificate("alpha0")
    assert certified.gradient.largest.ratio > certified.sampling.largest.ratio


def test_sum_collides_at_once() -> None:
    certified = certificate("sum")
    assert certified.collision is not None and certified.collision.moved < 1e-9 < 1e-2 < certified.collision.distance


def test_newton_reaches_a_collision_that_was_not_drawn() -> None:
    certified = certificate("kernels", kernels=4)  # scaling a row moves nothing; no family draws that
    assert certified.collision is not None
    assert certified.collision.moved < 1e-10 and certified.collision.distance > 1e-2


def test_the_identity_is_not_invariant() -> None:
    assert certificate("identity").invariance_error > 0.1


@pytest.mark.parametrize("method", ["alpha1", "alpha2", "zeta1"])
def test_algebraic_embeddings_are_lipschitz_but_not_below(method: str) -> None:
    certified = certificate(method)
    assert certified.jump is None and certified.collision is None
    assert certified.sampling.largest.ratio < 10
    assert certified.sampling.smallest.ratio < 1e-3


def test_a_wrong_claim_is_named() -> None:
    class Boastful(Sum):
        injective = "yes"

    readout = Boastful(2)
    certified = certify(readout, 3, samples=300, steps=5)
    assert certified.contradictions(readout) == ["injective is 'yes'"]


def test_a_subclass_is_not_held_to_the_bounds_of_its_parent() -> None:
    class Threefold(Sum):
        def pool(self, x: torch.Tensor, ptr: torch.Tensor) -> torch.Tensor:
            return 3 * super().pool(x, ptr)

    readout = Threefold(2)
    certified = certify(readout, 3, samples=300, steps=5)
    assert certified.sampling.largest.ratio > 3**0.5 and certified.contradictions(readout) == []


def test_bounds_are_the_theorems() -> None:
    A = full_spark(2, 7)
    lower, upper = theorem_bounds(build("ordering", 2, 3, key=A), 3)
    assert lower == pytest.approx(smallest_minor(A)) and upper == pytest.approx(torch.linalg.matrix_norm(A, 2).item())
    assert theorem_bounds(build("ordering", 2, 4, key=A), 4)[0] == lower  # 7 = 1 + ⌊5²/4⌋ columns are enough
    assert theorem_bounds(build("ordering", 2, 5, key=A), 5)[0] is None
    assert theorem_bounds(build("ordering", 2, 3), 3) == (None, pytest.approx(3**0.5))
    assert theorem_bounds(build("sum", 2, 4), 4) == (None, 2.0)
    assert theorem_bounds(build("sort", 2, 4), 4) == (None, None)


def test_beyond_six_rows_only_small_integers_and_many_columns_are_decided() -> None:
    assert certificate("ordering", n=7, key=full_spark(2, 7)).universality is None
    assert certificate("ordering", n=7).universality.universal is False  # [I | 1]: seven rows, exactly
    assert certificate("ordering", n=8).universality is None
    assert certificate("ordering", n=7, key=full_spark(2, 8)).universality.universal is True


def test_progress_counts_both_ways() -> None:
    seen: list[tuple[int, int | None]] = []
    certify(build("sum", 2, 3), 3, samples=100, steps=4, progress=lambda *step: seen.append(step))
    done, total = zip(*seen, strict=True)
    assert done == tuple(range(1, total[0] + 1)) and len(set(total)) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 0}, "n is 0.*at least 1"),
        ({"n": 4}, "n is 4.*max_nodes = 3"),
        ({"n": 3, "samples": 5}, "samples is 5.*at least 100"),
        ({"n": 3, "steps": 0}, "steps is 0"),
    ],
)
def test_bad_settings_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(ReadoutError, match=message):
        certify(build("sort", 2, 3), **settings)


def test_one_row_has_nothing_to_permute() -> None:
    assert certificate("sort", n=1).sampling.largest.ratio == pytest.approx(1)
