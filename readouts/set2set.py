"""Set2Set (Vinyals, Bengio, Kudlur 2015), as in PyG."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Set2Set as PyGSet2Set

from permlab.readouts.base import Readout
from permlab.readouts.checks import check_size
from permlab.readouts.segments import segment_ids, weighted_sum


class _Attend(torch.autograd.Function):
    """Xᵀ softmax(X q) in every graph: x [n, d], q [B, d], ptr [B+1], ids [n] → [B, d]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, q: Tensor, ptr: Tensor, ids: Tensor) -> Tensor:
        score = (x * q.index_select(0, ids)).sum(1)
        peak = torch.segment_reduce(score, "max", offsets=ptr, unsafe=True)
        weight = (score - peak.index_select(0, ids)).exp_()
        weight /= weighted_sum(weight[:, None], ptr)[:, 0].index_select(0, ids)
        ctx.save_for_backward(x, q, ptr, ids, weight)
        return weighted_sum(x, ptr, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, q, ptr, ids, weight = ctx.saved_tensors
        grad_rows = grad.index_select(0, ids)
        grad_weight = (x * grad_rows).sum(1)
        mean = weighted_sum(grad_weight[:, None], ptr, weight)[:, 0]
        grad_score = weight * (grad_weight - mean.index_select(0, ids))
        grad_x = grad_rows.mul_(weight[:, None]).addcmul_(grad_score[:, None], q.index_select(0, ids))
        return grad_x, weighted_sum(x, ptr, grad_score), None, None


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
        lstm: Any = self.set2set.lstm
        weights = (lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0)
        graphs, ids = ptr.numel() - 1, segment_ids(ptr)
        q = cell = x.new_zeros(graphs, self.in_channels)
        q_star = x.new_zeros(graphs, self.out_channels)
        for _ in range(self.set2set.processing_steps):
            q, cell = torch.lstm_cell(q_star, (q, cell), *weights)
            q_star = torch.cat([q, _Attend.apply(x, q, ptr, ids)], dim=1)
        return q_star
