import pytest
import torch

from permlab.readouts.algebraic import Alpha0, Alpha1, Alpha2, Zeta0, Zeta1
from permlab.readouts.base import Readout


@pytest.mark.parametrize("readout", [Alpha0, Alpha1, Alpha2, Zeta0, Zeta1])
def test_rows_of_zeros_change_nothing(readout: type[Readout]) -> None:
    """A zero row multiplies P_X by t, which leaves the coefficients alone: a graph and its padded copy agree."""
    x = torch.randn(3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(readout(2, 5)(x), readout(2, 5)(torch.cat([x, torch.zeros(2, 2)])))
