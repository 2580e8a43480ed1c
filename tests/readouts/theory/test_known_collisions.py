"""Collisions that an argument gives are confirmed in many digits, and only for the map that the argument is about."""

import pytest
import torch
from torch import Tensor

from permlab.readouts.catalogue import build
from permlab.readouts.kernels import FourierKernels
from permlab.readouts.theory.certificate import certify
from permlab.readouts.theory.known_collisions import known_collision


class Cosines(FourierKernels):
    def features(self, x: Tensor) -> Tensor:
        phase = 7 * x @ self.frequencies.to(x.dtype).T
        return torch.cat([phase.cos(), phase.sin()], dim=1)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (4, 2)])
def test_fourier_kernels_have_a_period(n: int, d: int) -> None:
    certificate = certify(build("fourier", d=d, max_nodes=n), n, samples=100, steps=1)
    assert certificate.collision is not None
    assert certificate.collision.moved < 1e-60 and certificate.collision.distance > 2.0**50


def test_a_subclass_that_computes_something_else_is_not_judged_by_its_parent() -> None:
    assert known_collision(Cosines(1), 2) is None


def test_without_an_argument_there_is_none() -> None:
    assert known_collision(build("sum", d=1, max_nodes=2), 2) is None


@pytest.mark.parametrize("scale", [1e-250, 1e-300])
def test_a_period_that_no_float_holds_is_no_collision(scale: float) -> None:
    pair = known_collision(build("fourier", d=1, max_nodes=2, scale=scale), 2)
    assert pair is None or pair.distance < float("inf")


def test_frequencies_of_0_alone_have_no_period() -> None:
    readout = build("fourier", d=1, max_nodes=2)
    assert isinstance(readout, FourierKernels)
    readout.frequencies.zero_()
    assert known_collision(readout, 2) is None
