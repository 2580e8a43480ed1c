"""Γ: graph convolution layers H ↦ σ(Â H W + b) on flat batches, Â·Z given."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from permlab.datasets.batch import GraphBatch
from permlab.readouts.segments import segment_ids, segment_sum
from permlab.tasks.hop import Hop, Step, neighbours, through
from permlab.tasks.layer import Layer, chain
from permlab.tasks.quotient import Quotient, quotient


class _SummedLayer(torch.autograd.Function):
    """(S H) W + n bᵀ of every graph: h [m, p], S [B, m] a sum, sizes [B, 1], weight [p, q], bias [q] → [B, q]."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, step: Step, sizes: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        pooled = step.forth(h)
        ctx.save_for_backward(pooled, sizes, weight)
        ctx.step = step
        return torch.addmm(sizes * bias, pooled, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, Tensor, Tensor]:
        pooled, sizes, weight = ctx.saved_tensors
        grad_h = None
        if ctx.needs_input_grad[0]:
            grad_h = through(ctx.step.back, torch.mm(grad, weight.T))
        return grad_h, None, None, torch.mm(pooled.T, grad), torch.mm(sizes.T, grad)[0]


def _sums(ptr: Tensor, weights: Tensor | None, found: Quotient | None) -> Step:
    """Of the rows of every graph: Σ_i w_i h_i, or Σ_i w_i h_{colour i} where equal rows were taken together."""
    ids = segment_ids(ptr)
    if found is None:
        each = torch.arange(len(ids) + 1, device=ids.device)
        return Step(Hop(ptr, each[:-1], weights), (Hop(each, ids, weights),))
    nodes = found.nodes.column
    weights_back = weights if weights is None else weights.index_select(0, nodes)
    back = Hop(found.nodes.ptr, ids.int().index_select(0, nodes), weights_back)
    return Step(Hop(ptr.int(), found.colour, weights), (back,))


class GCN(nn.Module):
    """r → hidden → … → d: `layers` layers of H ↦ σ(Â H W + b), GraphBatch → [n, d].

    The paper writes σ on every layer; by default the last one is linear (`last_activation="none"`), because with
    ReLU on the last layer d = 1 dies. The first layer takes the batch's Â·Z; the others multiply by W before or
    after Â, whichever is narrower.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        layers: int = 3,
        activation: str = "relu",
        last_activation: str = "none",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        widths = [in_channels, *[hidden_channels] * (layers - 1), out_channels]
        self.weights = nn.ParameterList(torch.empty(a, b) for a, b in pairwise(widths))
        self.biases = nn.ParameterList(torch.zeros(width) for width in widths[1:])
        for weight in self.weights:
            nn.init.xavier_uniform_(weight)  # as PyG's GCNConv
        activations = [*[activation] * (layers - 1), last_activation]
        self.layers = [Layer(each) for each in activations]
        self.last_activation, self.dropout = last_activation, dropout

    def forward(self, batch: GraphBatch) -> Tensor:
        return self._layers(batch, self._quotient(batch), len(self.weights))

    def summed(self, batch: GraphBatch) -> Tensor:
        """1ᵀΓ(X) of every graph, [B, d], without the last layer's rows: 1ᵀ(Â H W + 1bᵀ) = (1ᵀÂ H) W + n bᵀ.

        For a linear last layer only.
        """
        found = self._quotient(batch)
        h = self._layers(batch, found, len(self.weights) - 1)
        found = found if len(self.weights) == 3 else None  # behind more layers than two there is a row a node
        weight, bias, sizes = self.weights[-1], self.biases[-1], batch.ptr.diff()[:, None].to(h.dtype)
        columns = None  # the first layer is given Â·Z
        if len(self.weights) > 1:
            columns = neighbours(batch).forth(h.new_ones(len(batch.x), 1))[:, 0]  # 1ᵀÂ: Â is symmetric
        if not torch.is_grad_enabled():
            rows = h if found is None else h.index_select(0, found.colour)
            return torch.addmm(sizes * bias, segment_sum(rows, batch.ptr, columns), weight)
        if self.dropout and len(self.weights) > 1:
            h = nn.functional.dropout(h, self.dropout, self.training)
        out: Tensor = _SummedLayer.apply(h, _sums(batch.ptr, columns, found), sizes, weight, bias)
        return out

    def _quotient(self, batch: GraphBatch) -> Quotient | None:
        """For the two layers in which equal rows stay equal; what is dropped at random makes them differ."""
        return quotient(batch) if len(self.weights) > 2 and not (self.dropout and self.training) else None

    def _layers(self, batch: GraphBatch, found: Quotient | None, count: int) -> Tensor:
        """The first `count` layers: at one step, unless something is dropped between them."""
        parameters = [parameter for pair in zip(self.weights, self.biases, strict=True) for parameter in pair]
        whole = neighbours(batch)
        steps = [None, *([whole] * (count - 1) if found is None else [*found.steps, *[whole] * (count - 3)])][:count]
        h = batch.x if found is None else found.x
        if not self.dropout:
            return chain(h, self.layers[:count], parameters[: 2 * count], steps) if count else h
        for i in range(count):
            h = nn.functional.dropout(h, self.dropout, self.training) if i else h
            h = chain(h, self.layers[i : i + 1], parameters[2 * i : 2 * i + 2], steps[i : i + 1])
        return h
