"""Janossy pooling (Murphy, Srinivasan, Rao, Ribeiro 2019) of pairs."""

import torch
from torch import Tensor, nn

from permlab.readouts.base import Readout
from permlab.readouts.checks import check_size
from permlab.readouts.construct import weights_of
from permlab.readouts.from_pyg import of_one_size
from permlab.readouts.segments import places, segment_sum


class Janossy(Readout):
    """φ(X) = (1/(n(n−1))) Σ_{i≠j} max(Ux_i + Vx_j + b, 0): [n, d] → R^m, m = 50. Trainable: U, V, b.

    The mean over all ordered pairs, k = 2; a graph of one node is paired with 0. With `samples` = s, training takes the
    mean over s random partners j ≠ i of each node i, with the same expectation, in O(n·s) instead of O(n²); evaluation
    is exact. Not injective: while no pair crosses a kink, two rows may move by v and −v. The exact sum
    pools graphs of one size together, so the host waits for the device to learn the sizes.
    """

    permutation_invariant = True
    injective = "no"
    lipschitz = True
    bi_lipschitz = False
    formula = "Σᵢ≠ⱼ max(Uxᵢ + Vxⱼ + b, 0) / (n(n−1))"
    dimension = "m"
    cost = "n²·m + n·d·m"
    reference = "arXiv 1811.01900"

    def __init__(self, in_channels: int, out_channels: int = 50, samples: int | None = None, seed: int = 0) -> None:
        check_size("in_channels", in_channels)
        check_size("out_channels", out_channels, most=10_000)
        check_size("seed", seed, least=0)
        if samples is not None:
            check_size("samples", samples, most=1000)
        super().__init__()
        self.in_channels, self.out_channels, self.samples = in_channels, out_channels, samples
        with weights_of(seed):
            self.first = nn.Linear(in_channels, out_channels)
            self.second = nn.Linear(in_channels, out_channels, bias=False)

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        u, v = self.first(x), self.second(x)
        return self._exact(u, v, ptr) if self.samples is None or not self.training else self._sampled(u, v, ptr)

    def _exact(self, u: Tensor, v: Tensor, ptr: Tensor) -> Tensor:
        out = u.new_zeros(ptr.numel() - 1, self.out_channels)
        for graphs, rows in of_one_size(ptr):
            first = u.index_select(0, rows.flatten()).view(*rows.shape, -1)  # [g, n, m]
            second = v.index_select(0, rows.flatten()).view(*rows.shape, -1)
            n = rows.size(1)
            if n == 1:
                mean = first[:, 0].relu()
            else:
                pairs = (first[:, :, None] + second[:, None]).relu().sum((1, 2))
                mean = (pairs - (first + second).relu().sum(1)) / (n * (n - 1))
            out = out.index_copy(0, graphs, mean)
        return out

    def _sampled(self, u: Tensor, v: Tensor, ptr: Tensor) -> Tensor:
        graph, place = places(ptr, u.size(0))
        size = ptr.diff().index_select(0, graph)
        total = torch.zeros_like(u)
        for _ in range(self.samples or 0):
            step = 1 + (torch.rand(u.size(0), device=u.device) * (size - 1)).long().clamp(max=size - 2)
            partner = ptr.index_select(0, graph) + (place + step) % size
            total = total + (u + v.index_select(0, partner) * (size > 1)[:, None]).relu()
        return segment_sum(total / ((self.samples or 1) * size[:, None]), ptr)
