"""Set2Set (Vinyals, Bengio, Kudlur 2015), as in PyG."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch_geometric.nn.aggr import Set2Set as PyGSet2Set

from permlab.readouts.base import Readout
from permlab.readouts.checks import check_size
from permlab.readouts.loops.attention import attend, attend_back, spread
from permlab.readouts.loops.cell import advance, retreat
from permlab.readouts.products import on_cpu, outer, product
from permlab.readouts.segments import segment_ids
from permlab.readouts.tape import apply


class _Set2Set(torch.autograd.Function):
    """x [n, d], ptr [B+1], weights of an LSTM [4d, 2d], [4d, d], its biases [4d], [4d] → q*_T [B, 2d].

    q_{t−1} is both the LSTM's state and the first half of its input q*_{t−1}, so its weights are added up. Gates come
    in the order i, f, g, o: c_t = f c_{t−1} + i g, q_t = o tanh(c_t). As q*_0 = 0, the first step is the same for all
    graphs and takes one row.

    With W [h, d] and b [d] behind them, the rows of x [n, h] stand for x W + b: ⟨x_k W + b, q⟩ = ⟨x_k, W q⟩ + ⟨b, q⟩,
    of which the softmax does not see the last term, and Σ_k a_k (x_k W + b) = (Σ_k a_k x_k) W + b.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        ptr: Tensor,
        steps: int,
        w_in: Tensor,
        w_state: Tensor,
        b_in: Tensor,
        b_state: Tensor,
        *w_and_b: Tensor,
    ) -> Tensor:
        rows, bounds = x.contiguous().numpy(), ptr.numpy()
        graphs, d = len(bounds) - 1, w_state.size(1)
        weight, bias = w_in.clone(), b_in + b_state
        weight[:, :d] += w_state
        cell, star, saved = np.zeros((1, d), dtype=np.float32), torch.empty(0), []
        full = (ptr.diff() > 0)[:, None].float()
        for step in range(steps):
            gates = product(star, weight.T, bias) if step else bias[None].clone()
            before = cell
            cell, slope, q = np.empty((3, len(gates), d), dtype=np.float32)
            advance(gates.numpy(), before, cell, slope, q)
            query, mean = torch.from_numpy(q), torch.empty(graphs, rows.shape[1])
            if w_and_b:
                query = product(query, w_and_b[0].T)
            attention = attend(rows, query.numpy(), bounds, mean.numpy())
            saved.append((star, gates.numpy(), before, slope, q, query, attention, mean))
            whole = product(mean, w_and_b[0]).addcmul_(full, w_and_b[1]) if w_and_b else mean
            star = torch.cat([torch.from_numpy(q).expand(graphs, d), whole], 1)
        ctx.save_for_backward(x, *w_and_b)
        ctx.kept, ctx.saved = (rows, bounds, weight, full), saved
        return star

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (_, *w_and_b), (rows, bounds, weight, full) = ctx.saved_tensors, ctx.kept
        (n, width), graphs, d, steps = rows.shape, len(bounds) - 1, weight.size(1) // 2, len(ctx.saved)
        grad_cell, grad_gates = np.zeros((graphs, d), dtype=np.float32), torch.empty(graphs * (steps - 1), 4 * d)
        tables, factors = (np.empty(shape, dtype=np.float32) for shape in ((graphs, 2 * steps, width), (n, 2 * steps)))
        own = [torch.zeros_like(each) for each in w_and_b]
        for step in reversed(range(steps)):
            _, gates, before, slope, q, query, attention, mean = ctx.saved[step]
            grad_mean, turn = grad[:, d:].contiguous(), slice(2 * step, 2 * step + 2)
            if w_and_b:
                own[0] += outer(mean, grad_mean)
                own[1] += (full * grad_mean).sum(0)
                grad_mean = product(grad_mean, w_and_b[0].T)
            given = (query.numpy(), mean.numpy(), grad_mean.numpy())
            grad_query = torch.from_numpy(
                attend_back(rows, bounds, attention, *given, tables[:, turn], factors[:, turn])
            )
            if w_and_b:
                own[0] += outer(grad_query, torch.from_numpy(q).expand(graphs, d))
                grad_query = product(grad_query, w_and_b[0])
            grad_q = (grad[:, :d] + grad_query).numpy()
            if not step:  # one row stands for all
                grad_q, grad_cell = (each.sum(0, keepdims=True) for each in (grad_q, grad_cell))
            made = grad_gates[(step - 1) * graphs : step * graphs] if step else torch.empty(1, 4 * d)
            retreat(gates, before, slope, grad_q, grad_cell, made.numpy())
            grad = product(made, weight) if step else made
        grad_bias = grad_gates.sum(0) + made[0]
        grad_in = torch.zeros_like(weight)
        if steps > 1:
            grad_in = outer(grad_gates, torch.cat([saved[0] for saved in ctx.saved[1:]]))
        grad_x = torch.from_numpy(spread(tables, factors, bounds))
        return grad_x, None, None, grad_in, grad_in[:, :d].clone(), grad_bias, grad_bias.clone(), *own


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
        if not on_cpu(x):
            pooled: Tensor = self.set2set(x, segment_ids(ptr), dim_size=ptr.numel() - 1)
            return pooled
        return self._compiled(x, ptr)

    def takes_factors(self, weight: Tensor) -> bool:
        return on_cpu(weight) and weight.size(0) <= weight.size(1)

    def pool_factors(self, p: Tensor, weight: Tensor, bias: Tensor, ptr: Tensor) -> Tensor:
        return self._compiled(p, ptr, weight, bias)

    def _compiled(self, x: Tensor, ptr: Tensor, *w_and_b: Tensor) -> Tensor:
        lstm: Any = self.set2set.lstm
        weights = (lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0)
        return apply(_Set2Set, x, ptr, self.set2set.processing_steps, *weights, *w_and_b)
