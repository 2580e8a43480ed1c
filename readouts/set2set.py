"""Set2Set (Vinyals, Bengio, Kudlur 2015), as in PyG."""

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Set2Set as PyGSet2Set

from permlab.readouts.base import Readout
from permlab.readouts.checks import check_size
from permlab.readouts.segments import segment_ids


class Set2Set(Readout):
    """q_t = LSTM(q*_{t−1}), a_t = softmax(X q_t), q*_t = (q_t, Xᵀa_t), t = 1 … T: [n, d] → R^{2d}. Trainable.

    Not injective: every step sees a weighted mean, so repeating all rows changes nothing. Not Lipschitz: the softmax
    moves weight between rows that lie arbitrarily far apart. The weights start from `seed`, whatever the global
    generator holds.
    """

    permutation_invariant = True
    injective = "no"
    lipschitz = False
    bi_lipschitz = False
    formula = "(q_T, Xᵀ softmax(X q_T))"
    dimension = "2d"
    cost = "T·(n·d + d²)"
    reference = "section 4, 7"

    def __init__(self, in_channels: int, steps: int = 3, seed: int = 0) -> None:
        check_size("in_channels", in_channels)
        check_size("steps", steps)
        check_size("seed", seed, least=0)
        super().__init__()
        self.in_channels, self.out_channels = in_channels, 2 * in_channels
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.set2set = PyGSet2Set(in_channels, processing_steps=steps)

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        pooled: Tensor = self.set2set(x, segment_ids(ptr), dim_size=ptr.numel() - 1)
        return pooled
