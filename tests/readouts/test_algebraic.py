import pytest
import torch

from permlab.readouts.algebraic import Alpha0, Alpha1, Alpha2, Zeta0, Zeta1
from permlab.readouts.polynomial import alpha0, alpha1, alpha2, zeta0


def sample(n: int, d: int) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize(
    ("readout", "function"), [(Alpha0, alpha0), (Alpha1, alpha1), (Alpha2, alpha2), (Zeta0, zeta0)]
)
def test_readouts_are_the_functions(readout, function) -> None:
    x = sample(4, 2)
    torch.testing.assert_close(readout(2, 4)(x)[0], function(x))


def test_zeta1_is_zeta0_in_the_ball_and_the_norm() -> None:
    x = 3 * sample(4, 2)
    torch.testing.assert_close(Zeta1(2, 4)(x)[0], torch.cat([zeta0(x / x.norm()), x.norm()[None]]))


@pytest.mark.parametrize("readout", [Alpha0, Alpha1, Alpha2, Zeta0, Zeta1])
def test_padding_is_a_zero_row(readout) -> None:
    """A zero row multiplies P_X by t: it moves no coefficient, so a graph and its padded copy agree."""
    x = sample(3, 2)
    torch.testing.assert_close(readout(2, 5)(x), readout(2, 5)(torch.cat([x, torch.zeros(2, 2)])))
