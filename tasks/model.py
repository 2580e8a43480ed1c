"""F = ζ ∘ φ ∘ Γ: backbone, readout, head. The one model for training, evaluation, certificates and predictions."""

from typing import Any

from torch import Tensor, nn

from permlab.datasets.batch import GraphBatch
from permlab.readouts.base import Readout, gives_rows
from permlab.tasks.activations import activation_of
from permlab.tasks.dropout import Dropout
from permlab.tasks.ragged import RaggedLinear


class Head(nn.Module):
    """ζ: `layers` dense layers of `hidden` units, σ and dropout after each, then one output: [B, m] → [B].

    After a row readout the first layer is ragged: it takes the rows without most of their padding.
    """

    def __init__(
        self, readout: Any, hidden: int = 150, layers: int = 3, activation: str = "relu", dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.takes_rows = gives_rows(readout)
        self.first: nn.Module = (
            RaggedLinear(readout.row_channels, readout.max_nodes, hidden)
            if self.takes_rows
            else nn.Linear(readout.out_channels, hidden)
        )
        self.inner = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers - 1))
        self.last = nn.Linear(hidden, 1)
        self.activation, self.dropout = activation_of(activation), Dropout(dropout)

    def forward(self, pooled: Tensor, batch: GraphBatch) -> Tensor:
        z = self.first(pooled, batch.sizes) if self.takes_rows else self.first(pooled)
        for layer in (*self.inner, self.last):
            z = layer(self.dropout(self.activation(z)))
        return z.squeeze(-1)


class GraphModel(nn.Module):
    """GraphBatch → [B]: a logit, or the estimate of the target.

    backbone: GraphBatch → x [n, d]. readout: any PyG aggregation, x [n, d] → [B, m], or rows where the head takes rows.
    """

    def __init__(self, backbone: nn.Module, readout: nn.Module, head: Head) -> None:
        super().__init__()
        self.backbone, self.readout, self.head = backbone, readout, head
        if isinstance(readout, Readout):
            readout.validate = False  # batches are well-formed, and checking values waits for the device

    def forward(self, batch: GraphBatch) -> Tensor:
        x = self.backbone(batch)
        if self.head.takes_rows:
            pooled = self.readout(x, ptr=batch.ptr, padded=False)
        elif isinstance(self.readout, Readout):
            pooled = self.readout(x, ptr=batch.ptr)
        else:
            pooled = self.readout(x, batch.batch, dim_size=len(batch))
        return self.head(pooled, batch)
