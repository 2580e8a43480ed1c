"""Set2Set (Vinyals, Bengio, Kudlur 2015), as in PyG."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch_geometric.nn.aggr import Set2Set as PyGSet2Set

from permlab.readouts.attention import attend, attend_back, spread
from permlab.readouts.base import Readout
from permlab.readouts.checks import check_size
from permlab.readouts.segments import segment_ids

sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward


class _Set2Set(torch.autograd.Function):
    """x [n, d], ptr [B+1], weights of an LSTM [4d, 2d], [4d, d], its biases [4d], [4d] → q*_T [B, 2d].

    q_{t−1} is both the LSTM's state and the first half of its input q*_{t−1}, so its weights are added up. Gates come
    in the order i, f, g, o: c_t = f c_{t−1} + i g, q_t = o tanh(c_t).
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, ptr: Tensor, steps: int, w_in: Tensor, w_state: Tensor, b_in: Tensor, b_state: Tensor
    ) -> Tensor:
        d, rows = x.size(1), x.contiguous()
        weight, bias = w_in.clone(), b_in + b_state
        weight[:, :d] += w_state
        star, cell = x.new_zeros(ptr.numel() - 1, 2 * d), x.new_zeros(ptr.numel() - 1, d)
        saved: list[Tensor] = []
        for _ in range(steps):
            gates = torch.addmm(bias, star, weight.T)
            gates[:, : 2 * d].sigmoid_()
            gates[:, 2 * d : 3 * d].tanh_()
            gates[:, 3 * d :].sigmoid_()
            i, f, g, o = gates.chunk(4, 1)
            cell_before, cell = cell, torch.addcmul(f * cell, i, g)
            slope = cell.tanh()
            q = o * slope
            weights, mean = (torch.from_numpy(a) for a in attend(rows.numpy(), q.numpy(), ptr.numpy()))
            saved += (star, cell_before, gates, slope, weights)
            star = torch.cat([q, mean], 1)
        ctx.save_for_backward(rows, ptr, weight, star, *saved)
        return star.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, ptr, weight, star, *saved = ctx.saved_tensors
        d, steps, bounds = x.size(1), len(saved) // 5, ptr.numpy()
        grad_cell: Tensor | float = 0.0
        stars: list[Tensor] = []
        grad_gates: list[Tensor] = []
        tables: list[Tensor] = []
        factors: list[Tensor] = []
        for step in reversed(range(steps)):
            q, mean = star[:, :d], star[:, d:]
            star, cell_before, gates, slope, weights = saved[5 * step : 5 * step + 5]
            grad_mean = grad[:, d:].contiguous()
            given = (each.numpy() for each in (weights, mean.contiguous(), grad_mean))
            grad_score, through_score = (torch.from_numpy(a) for a in attend_back(x.numpy(), bounds, *given))
            tables += (grad_mean, q)
            factors += (weights, grad_score)
            grad_q = grad[:, :d] + through_score
            i, f, g, o = gates.chunk(4, 1)
            grad_cell = tanh_backward(grad_q * o, slope) + grad_cell
            parts = (
                sigmoid_backward(grad_cell * g, i),
                sigmoid_backward(grad_cell * cell_before, f),
                tanh_backward(grad_cell * i, g),
                sigmoid_backward(grad_q * slope, o),
            )
            stars.append(star)
            grad_gates.append(torch.cat(parts, 1))
            grad_cell = grad_cell * f
            grad = torch.mm(grad_gates[-1], weight)
        all_gates = torch.cat(grad_gates)
        grad_in, grad_bias = torch.mm(all_gates.T, torch.cat(stars)), all_gates.sum(0)
        grad_x = torch.from_numpy(spread(torch.stack(tables).numpy(), torch.stack(factors).numpy(), bounds))
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
        if x.device.type != "cpu":
            pooled: Tensor = self.set2set(x, segment_ids(ptr), dim_size=ptr.numel() - 1)
            return pooled
        lstm: Any = self.set2set.lstm
        weights = (lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0)
        q_star: Tensor = _Set2Set.apply(x, ptr, self.set2set.processing_steps, *weights)
        return q_star
