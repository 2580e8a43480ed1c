"""The readouts that the engine knows, forward and backward, on NumPy arrays."""

from typing import Any

import numpy as np
import torch
from torch import nn

from permlab.readouts.kernels import GaussianKernels
from permlab.readouts.pooling import Identity, SortPooling, Sum
from permlab.readouts.segment_sort import segment_sort
from permlab.readouts.set2set import Set2Set
from permlab.readouts.sorting import Ordering
from permlab.readouts.theory.keys import identity_plus_ones
from permlab.tasks.engine.attention import advance, attend, attend_back, gather, retreat
from permlab.tasks.engine.batches import EngineBatch
from permlab.tasks.engine.dense import outer, row_sum, times, times_transposed
from permlab.tasks.engine.gaussian import kernel_gradients, kernel_sums, scales, squares, straighten
from permlab.tasks.engine.merge import lexicographic
from permlab.tasks.engine.network import put_back, sort_descending
from permlab.tasks.engine.optimiser import FlatParameters
from permlab.tasks.engine.room import Room
from permlab.tasks.gcn import GCN

NO_LAYER = np.empty((0, 1), dtype=np.float32)


class Pool:
    """x [n, d] → what the head takes: rows, or a vector per graph. `backward` may overwrite its gradient."""

    def __init__(self, readout: Any, flat: FlatParameters, room: Room) -> None:
        self.readout, self.room = readout, room

    def forward(self, x: np.ndarray, batch: EngineBatch) -> np.ndarray:
        return x

    def backward(self, grad: np.ndarray) -> np.ndarray:
        return grad


class SumPool(Pool):
    """1ᵀX."""

    def forward(self, x: np.ndarray, batch: EngineBatch) -> np.ndarray:
        self.back = batch.sums.back
        return batch.sums.forth(x)

    def backward(self, grad: np.ndarray) -> np.ndarray:
        return self.back(grad)


class SumBeforeLastLayer(Pool):
    """1ᵀ(Â H W + 1cᵀ) = (1ᵀÂ H) W + n cᵀ: the last layer of Γ, if it is linear, on B rows instead of n."""

    def __init__(self, weight: Any, bias: Any, given: bool, flat: FlatParameters, room: Room) -> None:
        (self.weight, self.grad_weight), (self.bias, self.grad_bias) = flat.of(weight), flat.of(bias)
        self.given, self.room = given, room  # with a single layer its input is Â H already

    def forward(self, x: np.ndarray, batch: EngineBatch) -> np.ndarray:
        forth, self.back = batch.sums if self.given else batch.neighbour_sums
        self.sums, self.sizes = forth(x), np.diff(batch.ptr).astype(np.float32)[:, None]
        out = self.room.take(len(self.sums), len(self.bias))
        times(self.sums, self.weight, out)
        out += self.sizes * self.bias
        return out

    def backward(self, grad: np.ndarray) -> np.ndarray:
        outer(self.sums, grad, self.grad_weight)
        row_sum(self.sizes * grad, self.grad_bias)
        below = self.room.take(*self.sums.shape)
        times_transposed(grad, self.weight, below)
        return self.back(below)


class OrderingPool(Pool):
    """↓(XA)."""

    compiled_sort = True

    def __init__(self, readout: Ordering, flat: FlatParameters, room: Room) -> None:
        super().__init__(readout, flat, room)
        self.key = readout.key.detach().float().contiguous().numpy()
        self.with_sum = torch.equal(readout.key.double().cpu(), identity_plus_ones(len(self.key)))

    def forward(self, x: np.ndarray, batch: EngineBatch) -> np.ndarray:
        columns = self.room.take(len(x), self.key.shape[1])
        if self.with_sum:  # [I | 1] needs no product
            columns[:, :-1] = x
            np.sum(x, axis=1, out=columns[:, -1])
        else:
            times(x, self.key, columns)
        if self.compiled_sort:
            rows, self.order = sort_descending(columns, batch.ptr)
        else:
            rows, self.order = (
                each.numpy() for each in segment_sort(torch.from_numpy(columns), torch.from_numpy(batch.ptr))
            )
        return rows

    def backward(self, grad: np.ndarray) -> np.ndarray:
        columns = put_back(grad, self.order)
        x = self.room.take(len(columns), len(self.key))
        if self.with_sum:
            np.add(columns[:, :-1], columns[:, -1:], out=x)
        else:
            times_transposed(columns, self.key, x)
        return x


class SortPool(Pool):
    """The rows by their last column, descending, ties by the column before it."""

    def forward(self, x: np.ndarray, batch: EngineBatch) -> np.ndarray:
        self.order = lexicographic(x, batch.ptr)
        return x.take(self.order, axis=0)

    def backward(self, grad: np.ndarray) -> np.ndarray:
        x = self.room.take(*grad.shape)
        x[self.order] = grad
        return x


class GaussianPool(Pool):
    """Σ_k exp(−‖u_k − a_j‖²/σ²)."""

    def __init__(self, readout: GaussianKernels, flat: FlatParameters, room: Room) -> None:
        super().__init__(readout, flat, room)
        centres, self.scale = readout.centres.detach().double(), 1 / readout.sigma**2
        self.factors = (2 * self.scale * centres.T).float().contiguous().numpy()
        self.constant = (-self.scale * centres.square().sum(1)).float().numpy()

    def forward(self, x: np.ndarray, batch: EngineBatch) -> np.ndarray:
        return self.sums_of(x, x, NO_LAYER, self.factors, batch)

    def sums_of(
        self, x: np.ndarray, s: np.ndarray, layer: np.ndarray, factors: np.ndarray, batch: EngineBatch
    ) -> np.ndarray:
        """The kernels of rows whose products with 2Aᵀ/σ² are x · factors and whose squared lengths are ⟨x, s⟩."""
        take, n, m = self.room.take, len(x), len(self.constant)
        self.x, self.s, self.ptr, self.f = x, s, batch.ptr, factors
        square, self.factor, minus = take(n), take(n), take(n)
        self.values, out = take(n, m), take(len(batch.y), m)
        squares(x, s, layer, square)
        scales(square, self.scale, self.readout.normalise, self.factor, minus)
        kernel_sums(x, factors, self.constant, batch.ptr, self.factor, minus, self.values, out)
        if self.readout.mean:
            out /= np.maximum(np.diff(batch.ptr), 1)[:, None]
        return out

    def backward(self, grad: np.ndarray) -> np.ndarray:
        return self.gradient_of_rows(grad, NO_LAYER)[0]

    def gradient_of_rows(self, grad: np.ndarray, grad_f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The gradient of x, and the multiple of s that was added to it, [n]."""
        if self.readout.mean:
            grad /= np.maximum(np.diff(self.ptr), 1)[:, None]
        grad_x, sums = self.room.take(*self.x.shape), self.room.take(len(self.x))
        kernel_gradients(self.x, self.values, self.f, self.ptr, self.factor, grad, grad_x, sums, grad_f)
        if self.readout.normalise:
            straighten(self.x, self.s, self.factor, grad_x, sums)
        else:
            grad_x -= (2 * self.scale * sums)[:, None] * self.x
        return grad_x, sums


class GaussianBeforeLastLayer(GaussianPool):
    """Kernels of the rows of X = P W + 1cᵀ, scaled to length 1, from P = Â H without computing X; used if P is narrow.

    With p̃ = (p, 1) and L = (W; c): x = p̃ L, x F = p̃ (L F), and ‖x‖² = ⟨p̃, p̃ L Lᵀ⟩.
    """

    def __init__(self, readout: GaussianKernels, weight: Any, bias: Any, given: bool, flat: Any, room: Room) -> None:
        super().__init__(readout, flat, room)
        self.given = given  # as in `SumBeforeLastLayer`
        (self.w, self.grad_w), (self.c, self.grad_c) = flat.of(weight), flat.of(bias)

    def forward(self, x: np.ndarray, batch: EngineBatch) -> np.ndarray:
        """x is H, the input of the last layer, or with a single layer P itself."""
        self.adjacency = batch.adjacency
        p = x if self.given else self.adjacency(x)
        longer, s = self.room.take(len(p), p.shape[1] + 1), self.room.take(len(p), p.shape[1] + 1)
        longer[:, :-1], longer[:, -1] = p, 1
        self.layer = np.concatenate([self.w, self.c[None]])
        times(longer, self.layer @ self.layer.T, s)
        return self.sums_of(longer, s, self.layer, self.layer @ self.factors, batch)

    def backward(self, grad: np.ndarray) -> np.ndarray:
        grad_f, square = np.empty_like(self.f), np.empty((len(self.layer),) * 2, dtype=np.float32)
        grad_longer, straightened = self.gradient_of_rows(grad, grad_f)
        outer(self.x, straightened[:, None] * self.x, square)
        grad_layer = grad_f @ self.factors.T + square @ self.layer
        self.grad_w[...], self.grad_c[...] = grad_layer[:-1], grad_layer[-1]
        grad_p = np.ascontiguousarray(grad_longer[:, :-1])
        return grad_p if self.given else self.adjacency(grad_p)


class Set2SetPool(Pool):
    """q_t = LSTM(q*_{t−1}), a_t = softmax(X q_t), q*_t = (q_t, Xᵀa_t).

    q_{t−1} is both the LSTM's state and the first half of its input, so its two weights are added up. As q*_0 = 0, the
    first step is the same for all graphs and takes one row.
    """

    def __init__(self, readout: Set2Set, flat: FlatParameters, room: Room) -> None:
        super().__init__(readout, flat, room)
        lstm: Any = readout.lstm
        self.w_in, self.w_state, self.b_in, self.b_state = (
            flat.of(each) for each in (lstm.weight_ih, lstm.weight_hh, lstm.bias_ih, lstm.bias_hh)
        )

    def query(self, q: np.ndarray) -> np.ndarray:
        """The query that is compared with the rows: [B, d] → [B, width of the rows]."""
        return q

    def query_back(self, grad: np.ndarray, q: np.ndarray) -> np.ndarray:
        return grad

    def whole(self, mean: np.ndarray) -> np.ndarray:
        """The mean of the embeddings from the mean of the rows: [B, width of the rows] → [B, d]."""
        return mean

    def whole_back(self, grad: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return grad

    def forward(self, x: np.ndarray, batch: EngineBatch) -> np.ndarray:
        take, d, graphs = self.room.take, self.w_state[0].shape[1], len(batch.y)
        self.x, self.ptr, self.saved = x, batch.ptr, []
        self.weight, bias = self.w_in[0].copy(), self.b_in[0] + self.b_state[0]
        self.weight[:, :d] += self.w_state[0]
        cell, star = np.zeros((1, d), dtype=np.float32), np.empty((0, 2 * d), dtype=np.float32)
        for step in range(self.readout.steps):
            rows = graphs if step else 1
            gates, before, cell = take(rows, 4 * d), cell, take(rows, d)
            times_transposed(star, self.weight, gates)
            gates[...] = gates + bias if step else bias
            slope, q, weights, mean = take(rows, d), take(rows, d), take(len(x)), take(graphs, x.shape[1])
            advance(gates, before, cell, slope, q)
            query = self.query(q)
            attend(x, query, batch.ptr, weights, mean)
            self.saved.append((star, gates, before, slope, q, query, weights, mean))
            star = take(graphs, 2 * d)
            star[:, :d], star[:, d:] = q, self.whole(mean)
        return star

    def backward(self, grad: np.ndarray) -> np.ndarray:
        take, (n, width), d = self.room.take, self.x.shape, self.w_state[0].shape[1]
        graphs, steps = len(grad), len(self.saved)
        grad_cell, grad_gates = np.zeros((graphs, d), dtype=np.float32), take((steps - 1) * graphs, 4 * d)
        tables, factors, first = take(graphs, 2 * steps, width), take(n, 2 * steps), take(1, 4 * d)
        for step in reversed(range(steps)):
            _, gates, before, slope, q, query, weights, mean = self.saved[step]
            grad_query = take(graphs, width)
            grad_mean = self.whole_back(np.ascontiguousarray(grad[:, d:]), mean)
            attend_back(self.x, self.ptr, weights, query, mean, grad_mean, step, tables, factors, grad_query)
            grad_q = grad[:, :d] + self.query_back(grad_query, q)
            if not step:  # one row for all graphs
                grad_q, grad_cell = grad_q.sum(0, keepdims=True), grad_cell.sum(0, keepdims=True)
            made = grad_gates[(step - 1) * graphs : step * graphs] if step else first
            retreat(gates, before, slope, grad_q, grad_cell, made)
            if step:
                grad = take(graphs, 2 * d)
                times(made, self.weight, grad)
        row_sum(grad_gates, self.b_in[1])
        self.b_in[1][...] += first[0]
        self.b_state[1][...] = self.b_in[1]
        outer(grad_gates, np.concatenate([saved[0] for saved in self.saved]), self.w_in[1])
        self.w_state[1][...] = self.w_in[1][:, :d]
        grad_x = take(n, width)
        gather(tables, factors, self.ptr, grad_x)
        return grad_x


class Set2SetBeforeLastLayer(Set2SetPool):
    """Set2Set of X = P W + 1cᵀ from P = Â H without computing X; used if P is not wider than X. ⟨p W + c, q⟩ = ⟨p, W q⟩
    + ⟨c, q⟩, and the softmax ignores the constant ⟨c, q⟩; Σ a_k (p_k W + c) = (Σ a_k p_k) W + c.
    """

    def __init__(self, readout: Set2Set, weight: Any, bias: Any, given: bool, flat: Any, room: Room) -> None:
        super().__init__(readout, flat, room)
        self.given = given  # as in `SumBeforeLastLayer`
        (self.w, self.grad_w), (self.c, self.grad_c) = flat.of(weight), flat.of(bias)

    def forward(self, x: np.ndarray, batch: EngineBatch) -> np.ndarray:
        """x is H, the input of the last layer, or with a single layer P itself."""
        self.adjacency = batch.adjacency
        self.full = (np.diff(batch.ptr) > 0).astype(np.float32)[:, None]
        self.grad_w[...], self.grad_c[...] = 0, 0
        return super().forward(x if self.given else self.adjacency(x), batch)

    def backward(self, grad: np.ndarray) -> np.ndarray:
        grad = super().backward(grad)
        return grad if self.given else self.adjacency(grad)

    def query(self, q: np.ndarray) -> np.ndarray:
        return q @ self.w.T

    def query_back(self, grad: np.ndarray, q: np.ndarray) -> np.ndarray:
        self.grad_w[...] += grad.T @ q if len(q) > 1 else np.outer(grad.sum(0), q[0])
        return grad @ self.w

    def whole(self, mean: np.ndarray) -> np.ndarray:
        return mean @ self.w + self.full * self.c

    def whole_back(self, grad: np.ndarray, mean: np.ndarray) -> np.ndarray:
        self.grad_w[...] += mean.T @ grad
        self.grad_c[...] += (self.full * grad).sum(0)
        return grad @ self.w.T


def early_pool(gcn: GCN, readout: Any, flat: FlatParameters, room: Room) -> Pool | None:
    """A pool that takes the input of Γ's last layer, if that layer is linear and this is less work; else None."""
    weight, bias, given = gcn.weights[-1], gcn.biases[-1], len(gcn.weights) == 1
    if type(gcn.last_activation) is not nn.Identity:
        return None
    if type(readout) is Sum:
        return SumBeforeLastLayer(weight, bias, given, flat, room)
    h, d, m = weight.size(0), weight.size(1), readout.out_channels
    if type(readout) is GaussianKernels and readout.normalise and 3 * h * (h + m) < d * (3 * h + 2 * m):
        return GaussianBeforeLastLayer(readout, weight, bias, given, flat, room)
    if type(readout) is Set2Set and weight.size(0) <= weight.size(1):
        return Set2SetBeforeLastLayer(readout, weight, bias, given, flat, room)
    return None


POOLS: dict[type, type[Pool]] = {
    Sum: SumPool,
    Identity: Pool,
    Ordering: OrderingPool,
    SortPooling: SortPool,
    GaussianKernels: GaussianPool,
    Set2Set: Set2SetPool,
}
