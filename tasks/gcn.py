"""Γ: graph convolution layers H ↦ σ(Â H W + b) on flat batches, Â·Z given."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from permlab.datasets.batch import GraphBatch
from permlab.readouts.segments import segment_sum, spread, weighted_sum
from permlab.tasks.layer import Layer, chain


class _SummedLayer(torch.autograd.Function):
    """(cᵀH) W + n bᵀ of every graph: h [n, p], c [n], sizes [B, 1], weight [p, q], bias [q] → [B, q]."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, columns: Tensor | None, ptr: Tensor, sizes: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensor:
        pooled = weighted_sum(h, ptr, columns)
        ctx.save_for_backward(pooled, columns, ptr, sizes, weight)
        return torch.addmm(sizes * bias, pooled, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None, Tensor, Tensor]:
        pooled, columns, ptr, sizes, weight = ctx.saved_tensors
        grad_h = spread(torch.mm(grad, weight.T), ptr, columns) if ctx.needs_input_grad[0] else None
        return grad_h, None, None, None, torch.mm(pooled.T, grad), torch.mm(sizes.T, grad)[0]


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
        self.layers = [Layer(each, graph=place > 0) for place, each in enumerate(activations)]
        self.last_activation, self.dropout = last_activation, dropout

    def forward(self, batch: GraphBatch) -> Tensor:
        return self._layers(batch, len(self.weights))

    def summed(self, batch: GraphBatch) -> Tensor:
        """1ᵀΓ(X) of every graph, [B, d], without the last layer's rows: 1ᵀ(Â H W + 1bᵀ) = (1ᵀÂ H) W + n bᵀ.

        For a linear last layer only.
        """
        h = self._layers(batch, len(self.weights) - 1)
        columns = batch.a_sum if len(self.weights) > 1 else None  # the first layer is given Â·Z
        if self.dropout and len(self.weights) > 1:
            h = nn.functional.dropout(h, self.dropout, self.training)
        weight, bias, sizes = self.weights[-1], self.biases[-1], batch.ptr.diff()[:, None].to(h.dtype)
        if torch.is_grad_enabled():
            out: Tensor = _SummedLayer.apply(h, columns, batch.ptr, sizes, weight, bias)
            return out
        return torch.addmm(sizes * bias, segment_sum(h, batch.ptr, columns), weight)

    def _layers(self, batch: GraphBatch, count: int) -> Tensor:
        """The first `count` layers: at one step, unless something is dropped between them."""
        parameters = [parameter for pair in zip(self.weights, self.biases, strict=True) for parameter in pair]
        if not self.dropout:
            return chain(batch.x, self.layers[:count], parameters[: 2 * count], batch) if count else batch.x
        h = batch.x
        for i in range(count):
            h = nn.functional.dropout(h, self.dropout, self.training) if i else h
            h = chain(h, self.layers[i : i + 1], parameters[2 * i : 2 * i + 2], batch)
        return h
