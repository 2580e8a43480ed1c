"""Γ: graph convolutions H ↦ σ(Â H W + b)."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from permlab.datasets.batch import GraphBatch
from permlab.tasks.activations import activation_of
from permlab.tasks.dropout import Dropout
from permlab.tasks.norms import norm_of


class GCN(nn.Module):
    """r → hidden → … → d: `layers` layers of H ↦ σ(Â H W + b), GraphBatch → [n, d] (Kipf and Welling 2017).

    The paper writes σ on every layer; by default the last one is linear (`last_activation="none"`), because with
    ReLU on the last layer d = 1 dies. The first layer takes Â·Z, which the batch holds. Dropout acts on the inputs of
    the later layers, and a norm on the outputs of all but the last, before σ. With `bias=False` there is no b, as in
    the paper's formula.
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
        norm: str = "none",
        bias: bool = True,
    ) -> None:
        super().__init__()
        widths = [in_channels, *[hidden_channels] * (layers - 1), out_channels]
        self.weights = nn.ParameterList(torch.empty(a, b) for a, b in pairwise(widths))
        self.biases = nn.ParameterList(torch.zeros(width) for width in widths[1:] if bias)
        for weight in self.weights:
            nn.init.xavier_uniform_(weight)  # as PyG's GCNConv
        self.activation, self.last_activation = activation_of(activation), activation_of(last_activation)
        self.dropout = Dropout(dropout)
        self.norms = nn.ModuleList(norm_of(norm, width) for width in widths[1:-1])

    def forward(self, batch: GraphBatch) -> Tensor:
        first, *rest = self.weights
        biases = [*self.biases] or [0.0] * len(self.weights)
        h = batch.az.to(first.dtype) @ first + biases[0]
        for norm, weight, bias in zip(self.norms, rest, biases[1:], strict=True):
            h = self.dropout(self.activation(norm(h)))
            h = batch.adjacency @ (h @ weight) + bias
        return self.last_activation(h)
