"""Γ: graph convolution layers H ↦ σ(Â H W + b) on flat batches, Â·Z given."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from permlab.datasets.batch import GraphBatch
from permlab.tasks.layer import layer


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
        h, last = batch.x, len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if i and self.dropout:
                h = nn.functional.dropout(h, self.dropout, self.training)
            activation = self.activation if i < last else self.last_activation
            h = layer(h, weight, bias, activation, batch if i else None)
        return h
