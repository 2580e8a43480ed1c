"""Set2Set (Vinyals, Bengio, Kudlur 2015): the same values as PyG's, from an LSTM cell instead of an LSTM layer."""

import torch
from torch import Tensor
from torch_geometric.utils import softmax

from permlab.readouts.base import Readout
from permlab.readouts.checks import check_size
from permlab.readouts.segments import segment_ids, segment_sum


class Set2Set(Readout):
    """q_t = LSTM(q*_{t−1}), a_t = softmax(X q_t), q*_t = (q_t, Xᵀa_t), t = 1 … T: [n, d] → R^{2d}. Trainable.

    Not injective for n ≥ 3: a continuous map into 2d < n·d dimensions. Not Lipschitz: the softmax moves weight between
    rows that lie arbitrarily far apart. The initial weights depend on `seed` alone, not on the global generator.
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
        check_size("in_channels", in_channels, most=2000)
        check_size("steps", steps, most=1000)
        check_size("seed", seed, least=0)
        super().__init__()
        self.in_channels, self.out_channels = in_channels, 2 * in_channels
        self.steps = steps
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.lstm = torch.nn.LSTMCell(2 * in_channels, in_channels)

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        graphs, graph = ptr.numel() - 1, segment_ids(ptr, x.size(0))
        q = cell = x.new_zeros(graphs, self.in_channels)
        q_star = x.new_zeros(graphs, self.out_channels)
        for _ in range(self.steps):
            q, cell = self.lstm(q_star, (q, cell))
            scores = (x * q.index_select(0, graph)).sum(1)
            attention = softmax(scores, graph, num_nodes=graphs)
            q_star = torch.cat([q, segment_sum(attention[:, None] * x, ptr)], dim=1)
        return q_star
