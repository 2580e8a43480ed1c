"""Γ: graph convolution layers H ↦ σ(Â H W + b) on flat batches, Â·Z given."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from permlab.datasets.batch import GraphBatch

# ReLU in place: what it is given is always a fresh product, which nothing else needs.
ACTIVATIONS = {"relu": torch.relu_, "tanh": torch.tanh, "elu": nn.functional.elu, "none": lambda x: x}


class _Propagate(torch.autograd.Function):
    """Â H. Â is symmetric, so the gradient is Â times the gradient: the same matrix, no transpose."""

    @staticmethod
    def forward(ctx: Any, adjacency: Tensor, h: Tensor) -> Tensor:
        ctx.adjacency = adjacency
        return adjacency @ h

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, ctx.adjacency @ grad.contiguous()


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
        self.activation, self.last_activation, self.dropout = activation, last_activation, dropout

    def forward(self, batch: GraphBatch) -> Tensor:
        h = torch.addmm(self.biases[0], batch.x, self.weights[0])
        adjacency = batch.adjacency if len(self.weights) > 1 else None
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            h = ACTIVATIONS[self.activation](h)
            if self.dropout:
                h = nn.functional.dropout(h, self.dropout, self.training)
            if weight.size(0) <= weight.size(1):
                h = torch.addmm(bias, _Propagate.apply(adjacency, h), weight)
            else:
                h = _Propagate.apply(adjacency, h @ weight) + bias
        return ACTIVATIONS[self.last_activation](h)
