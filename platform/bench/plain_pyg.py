"""What one would write without PermLab: PyG's DataLoader, GCNConv and aggregations in a Lightning Trainer."""

import logging
import warnings
from copy import deepcopy
from itertools import pairwise
from typing import Any, cast

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv
from torch_geometric.nn.aggr import Aggregation, SortAggregation, SumAggregation
from torch_geometric.utils import to_dense_batch

from permlab.datasets.manifest import Manifest
from permlab.platform.bench.padded import gaussians, set2set, sorted_columns, with_sum
from permlab.platform.settings.run import RunSettings
from permlab.readouts.base import sizes_of
from permlab.readouts.names import PAPER_METHODS
from permlab.tasks.activations import activation_of


class PlainModel(pl.LightningModule):
    """The same model as our GraphModel, with a copy of its weights."""

    vectors: Tensor

    def __init__(self, settings: RunSettings, ours: nn.Module, manifest: Manifest) -> None:
        super().__init__()
        self.method, self.learning_rate = settings.method, settings.train.learning_rate
        self.max_nodes, self.regression = manifest.max_nodes, manifest.task == "regression"
        weights = {name: value.detach().clone() for name, value in ours.state_dict().items()}
        inner, hidden, d = settings.model.hidden, settings.model.head_hidden, settings.d
        widths = [len(manifest.feature_names), *[inner] * (settings.model.layers - 1), d]
        self.convs = nn.ModuleList(GCNConv(a, b) for a, b in pairwise(widths))
        self.activation = activation_of(settings.model.activation)
        self.last_activation = activation_of(settings.model.last_activation)
        self.dropout = nn.Dropout(settings.model.dropout)
        self.readout, pooled = self._readout(d, ours, weights)
        sizes = [pooled, *[hidden] * settings.model.head_layers, 1]
        self.dense = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self._copy(weights)

    def _readout(self, d: int, ours: nn.Module, weights: dict[str, Tensor]) -> tuple[nn.Module | None, int]:
        """PyG's aggregation, if it has one, and the width of the pooled vector."""
        if self.method == "sum":
            return SumAggregation(), d
        if self.method == "sort":
            return SortAggregation(self.max_nodes), self.max_nodes * d
        if self.method == "set2set":
            return set2set(ours.get_submodule("readout")), 2 * d
        if self.method == "kernels":
            self.register_buffer("vectors", weights["readout.centres"])
            return SumAggregation(), len(self.vectors)
        if self.method in PAPER_METHODS:
            return None, self.max_nodes * (d + (self.method == "ordering"))
        readout = deepcopy(ours.get_submodule("readout"))  # a plug-in is the same on both sides
        return readout, sizes_of(cast(Aggregation, readout))[1]

    def _copy(self, weights: dict[str, Tensor]) -> None:
        conv: Any
        for i, conv in enumerate(self.convs):
            conv.lin.weight.data, conv.bias.data = (
                weights[f"backbone.weights.{i}"].T.contiguous(),
                weights[f"backbone.biases.{i}"],
            )
        names = ["first", *(f"inner.{i}" for i in range(len(self.dense) - 2)), "last"]
        for layer, name in zip(self.dense, names, strict=True):
            layer.weight.data = weights[f"head.{name}.weight"]
            layer.bias.data = weights[f"head.{name}.bias"]

    def forward(self, batch: Any) -> Tensor:
        x = batch.x
        for i, conv in enumerate(self.convs):
            x = conv(self.dropout(self.activation(x)) if i else x, batch.edge_index)
        z = self.pool(self.last_activation(x), batch.batch)
        for i, layer in enumerate(self.dense):
            z = layer(self.dropout(self.activation(z)) if i else z)
        return z.squeeze(-1)

    def pool(self, x: Tensor, index: Tensor) -> Tensor:
        if self.method == "kernels":
            x = gaussians(x, self.vectors)
        if self.readout is not None:
            return self.readout(x, index)
        if self.method == "ordering":
            return sorted_columns(with_sum(x), index, self.max_nodes)
        return to_dense_batch(x, index, max_num_nodes=self.max_nodes)[0].flatten(1)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        predictions = self(batch)
        if self.regression:
            return functional.mse_loss(predictions, batch.y)
        return functional.binary_cross_entropy_with_logits(predictions, batch.y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate)


def permuted_copies(graphs: list[Data], copies: int, seed: int) -> list[Data]:
    """`copies` copies of every graph, each with its nodes renumbered at random."""
    generator = torch.Generator().manual_seed(seed)
    permuted = []
    for _ in range(copies):
        for graph in graphs:
            order = torch.randperm(graph.num_nodes, generator=generator)
            new_index = torch.argsort(order)
            permuted.append(Data(x=graph.x[order], edge_index=new_index[graph.edge_index], y=graph.y))
    return permuted


def fit(model: PlainModel, loader: DataLoader, callbacks: list[pl.Callback]) -> None:
    """Train until a callback stops it."""
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="pytorch_lightning|lightning_fabric")
    trainer = pl.Trainer(
        max_epochs=-1,
        accelerator="cpu",
        callbacks=callbacks,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, loader)
