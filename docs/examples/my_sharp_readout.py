"""A readout that states its facts, has an option, and says what to search when it is tuned."""

from torch import Tensor

from permlab.readouts.base import Readout
from permlab.readouts.segments import segment_sum


class Sharp(Readout):
    """(Σ |x|^p)^(1/p) of each column: the sum of absolute values at p = 1, close to their maximum at large p."""

    permutation_invariant, injective, lipschitz, bi_lipschitz = True, "no", True, False
    formula, dimension, cost, reference = "(Σ|x|^p)^(1/p)", "d", "n·d", "nowhere"
    space = {"p": {"low": 1.0, "high": 16.0, "log": True}}  # noqa: RUF012

    def __init__(self, in_channels: int, p: float = 4.0) -> None:
        super().__init__()
        self.in_channels = self.out_channels = in_channels
        self.p = p

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        return (segment_sum(x.abs() ** self.p, ptr) + 1e-12) ** (1 / self.p)
