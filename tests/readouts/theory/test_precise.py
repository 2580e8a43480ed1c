"""The formulas in many digits are those of the readouts."""

import numpy as np
import pytest
import torch
from mpmath import mp, mpf

from permlab.readouts.catalogue import build
from permlab.readouts.kernels import FourierKernels
from permlab.readouts.theory.precise import formula, length, numbers
from tests.readouts.cases import BUILT_IN, OWN, Case


@pytest.mark.parametrize("case", BUILT_IN, ids=str)
@pytest.mark.parametrize(("n", "N"), [(4, 4), (3, 5), (1, 2)])
def test_a_formula_gives_the_numbers_of_its_readout(case: Case, n: int, N: int) -> None:
    readout = case.make(case.d, N).double()
    x = torch.randn(n, case.d, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    x[0] = 0
    with mp.workdps(40):
        image = formula(readout, numbers(x))
    np.testing.assert_allclose(image.astype(float), readout(x)[0].detach(), rtol=1e-12, atol=1e-12)


def test_more_digits_show_what_float64_rounds_away() -> None:
    readout = build("sum", d=1, max_nodes=2).double()
    X = torch.tensor([[1.0], [2.0**-80]], dtype=torch.float64)
    assert readout(X).item() == 1
    with mp.workdps(40):
        assert formula(readout, numbers(X))[0] - 1 == mpf(2) ** -80


def test_a_readout_without_a_formula_has_none() -> None:
    own = next(case for case in OWN if case.name == "own-rows")
    assert formula(own.make(2, 3), numbers(torch.ones(3, 2))) is None


def test_a_power_of_two_is_a_period_of_all_fourier_kernels() -> None:
    """Why they are injective for no n: the frequencies are floats, so integers once a power of two multiplies them."""
    readout, X = FourierKernels(2), torch.randn(3, 2, dtype=torch.float64)
    with mp.workdps(80):
        Y = numbers(X)
        Y[1, 0] += mpf(2) ** 80
        assert length(formula(readout, Y) - formula(readout, numbers(X))) < mpf(10) ** -40
