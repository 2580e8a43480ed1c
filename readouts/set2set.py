"""Set2Set (Vinyals, Bengio, Kudlur 2015), as in PyG."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch_geometric.nn.aggr import Set2Set as PyGSet2Set

from permlab.readouts.attention import attend, attend_back, spread
from permlab.readouts.base import Readout
from permlab.readouts.cell import advance, retreat
from permlab.readouts.checks import check_size
from permlab.readouts.products import outer, product
from permlab.readouts.segments import segment_ids


class _Set2Set(torch.autograd.Function):
    """x [n, d], ptr [B+1], weights of an LSTM [4d, 2d], [4d, d], its biases [4d], [4d] → q*_T [B, 2d].

    q_{t−1} is both the LSTM's state and the first half of its input q*_{t−1}, so its weights are added up. Gates come
    in the order i, f, g, o: c_t = f c_{t−1} + i g, q_t = o tanh(c_t). As q*_0 = 0, the first step is the same for all
    graphs and takes one row.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, ptr: Tensor, steps: int, w_in: Tensor, w_state: Tensor, b_in: Tensor, b_state: Tensor
    ) -> Tensor:
        rows, bounds = x.contiguous().numpy(), ptr.numpy()
        graphs, d = len(bounds) - 1, x.size(1)
        weight, bias = w_in.clone(), b_in + b_state
        weight[:, :d] += w_state
        cell, star, saved = np.zeros((1, d), dtype=np.float32), torch.empty(0), []
        for step in range(steps):
            gates = product(star, weight.T, bias) if step else bias[None].clone()
            before = cell
            cell, slope, q = np.empty((3, len(gates), d), dtype=np.float32)
            advance(gates.numpy(), before, cell, slope, q)
            following = torch.empty(graphs, 2 * d)
            attention = attend(rows, q, bounds, following.numpy())
            saved.append((star, gates.numpy(), before, slope, attention, following))
            star = following
        ctx.kept, ctx.saved = (rows, bounds, weight), saved
        return star.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (rows, bounds, weight), (n, d) = ctx.kept, ctx.kept[0].shape
        graphs, steps = len(bounds) - 1, len(ctx.saved)
        grad_cell, grad_gates = np.zeros((graphs, d), dtype=np.float32), torch.empty(graphs * (steps - 1), 4 * d)
        grad_bias = torch.zeros(4 * d)
        tables, factors = (np.empty(shape, dtype=np.float32) for shape in ((graphs, 2 * steps, d), (n, 2 * steps)))
        for step in reversed(range(steps)):
            _, gates, before, slope, attention, star = ctx.saved[step]
            given, turn = grad.contiguous().numpy(), slice(2 * step, 2 * step + 2)
            grad_q = attend_back(rows, bounds, attention, star.numpy(), given, tables[:, turn], factors[:, turn])
            if not step:  # one row stands for all
                grad_q, grad_cell = (each.sum(0, keepdims=True) for each in (grad_q, grad_cell))
            made = grad_gates[(step - 1) * graphs : step * graphs] if step else torch.empty(1, 4 * d)
            retreat(gates, before, slope, grad_q, grad_cell, made.numpy())
            if step:
                grad = product(made, weight)
            else:
                grad_bias += made[0]
        if steps > 1:
            grad_in = outer(grad_gates, torch.cat([saved[0] for saved in ctx.saved[1:]]))
            grad_bias += grad_gates.sum(0)
        else:
            grad_in = torch.zeros_like(weight)
        grad_x = torch.from_numpy(spread(tables, factors, bounds))
        return grad_x, None, None, grad_in, grad_in[:, :d].clone(), grad_bias, grad_bias.clone()


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
        if x.device.type != "cpu" or x.dtype != torch.float32:
            pooled: Tensor = self.set2set(x, segment_ids(ptr), dim_size=ptr.numel() - 1)
            return pooled
        lstm: Any = self.set2set.lstm
        weights = (lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0)
        q_star: Tensor = _Set2Set.apply(x, ptr, self.set2set.processing_steps, *weights)
        return q_star
