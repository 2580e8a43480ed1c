"""Γ: graph convolution layers H ↦ σ(Â H W + b) on flat batches, Â·Z given."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from permlab.datasets.batch import GraphBatch
from permlab.readouts.segments import segment_sum, weighted_sum
from permlab.tasks.layer import Layer, chain


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
        columns = weighted_sum(batch.a_value[:, None], batch.a_ptr)[:, 0] if len(self.weights) > 1 else None
        if self.dropout and len(self.weights) > 1:
            h = nn.functional.dropout(h, self.dropout, self.training)
        sizes = batch.ptr.diff()[:, None].to(h.dtype)
        return segment_sum(h, batch.ptr, columns) @ self.weights[-1] + sizes * self.biases[-1]

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
