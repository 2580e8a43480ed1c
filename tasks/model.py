"""F = ζ ∘ φ ∘ Γ: backbone, readout, head. The one model for training, evaluation, certificates and predictions."""

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn.aggr import Aggregation

from permlab.datasets.batch import GraphBatch
from permlab.readouts.base import Readout, gives_rows, pooled
from permlab.tasks.activations import activation_of
from permlab.tasks.dropout import Dropout
from permlab.tasks.ragged import RaggedLinear
from permlab.tasks.scaling import ScaleFeatures


class Head(nn.Module):
    """ζ: `layers` dense layers of `hidden` units, σ and dropout after each, then the outputs: [B, m] → [B, outputs], or
    [B] for one output.

    After a row readout the first layer is ragged: it takes the rows without most of their padding.
    """

    def __init__(
        self,
        readout: Any,
        hidden: int = 150,
        layers: int = 3,
        activation: str = "relu",
        dropout: float = 0.0,
        outputs: int = 1,
    ) -> None:
        super().__init__()
        self.takes_rows = gives_rows(readout)
        self.first: nn.Module = (
            RaggedLinear(readout.row_channels, readout.max_nodes, hidden)
            if self.takes_rows
            else nn.Linear(getattr(readout, "permlab_sizes", (0, readout.out_channels))[1], hidden)
        )
        self.inner = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers - 1))
        self.last = nn.Linear(hidden, outputs)
        self.activation, self.dropout = activation_of(activation), Dropout(dropout)

    def forward(self, pooled: Tensor, batch: GraphBatch) -> Tensor:
        z = self.first(pooled, batch.sizes) if self.takes_rows else self.first(pooled)
        for layer in (*self.inner, self.last):
            z = layer(self.dropout(self.activation(z)))
        return z.squeeze(-1)  # which leaves several outputs as they are


def standardise_on(y: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the targets [G] or [G, T] that are present: scalars or [T], in double precision.

    A target that is always the same has standard deviation 1.
    """
    present, y = ~y.isnan(), y.double()
    count = present.sum(dim=0).clamp(min=1)
    mean = y.nansum(dim=0) / count
    std = ((y - mean).square().nansum(dim=0) / count).sqrt()
    return mean, torch.where(std > 0, std, torch.ones_like(std))


class Standardise(nn.Module):
    """z ↦ mean + std · z: from standardised targets to the data's units, [B] or [B, T]. Both numbers, or [T], are
    buffers, so that the weights of a model include them.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor | float, std: Tensor | float) -> None:
        super().__init__()
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.get_default_dtype()).clone())
        self.register_buffer("std", torch.as_tensor(std, dtype=torch.get_default_dtype()).clone())

    def forward(self, z: Tensor) -> Tensor:
        return self.mean + self.std * z


class GraphModel(nn.Module):
    """GraphBatch → [B] or [B, outputs]: logits, or estimates of the targets.

    backbone: GraphBatch → x [n, d]. readout: any PyG aggregation, x [n, d] → [B, m], or rows where the head takes rows.
    scale: from the head's output to the data's units. features: scales the node features before the backbone.
    """

    def __init__(
        self,
        backbone: nn.Module,
        readout: Aggregation,
        head: Head,
        scale: Standardise | None = None,
        features: ScaleFeatures | None = None,
    ) -> None:
        super().__init__()
        self.backbone, self.readout, self.head, self.scale, self.features = backbone, readout, head, scale, features
        if isinstance(readout, Readout):
            readout.validate = False  # batches are well-formed, and checking values waits for the device

    def forward(self, batch: GraphBatch) -> Tensor:
        z = self.head(self.pooled(self.embedded(batch), batch), batch)
        return z if self.scale is None else self.scale(z)

    def embedded(self, batch: GraphBatch) -> Tensor:
        """x [n, d]: the node embeddings."""
        x: Tensor = self.backbone(batch if self.features is None else self.features(batch))
        return x

    def pooled(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """φ(x) [B, m], or its rows [n, k] where the head takes rows."""
        if self.head.takes_rows:
            rows: Tensor = self.readout(x, ptr=batch.ptr, padded=False)
            return rows
        return pooled(self.readout, x, batch.ptr, None if isinstance(self.readout, Readout) else batch.batch)
