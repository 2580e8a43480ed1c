"""What one would write without PermLab: PyG's DataLoader, GCNConv and aggregations in a Lightning Trainer."""

import time
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv
from torch_geometric.nn.aggr import Set2Set, SortAggregation, SumAggregation
from torch_geometric.utils import to_dense_batch

from permlab.platform.config import RunSettings
from permlab.platform.trial import Trial
from permlab.tasks.pyg import to_pyg
from permlab.tasks.ragged import RaggedLinear


class PlainModel(pl.LightningModule):
    """The same model as the trial's GraphModel, with the same weights."""

    vectors: Tensor

    def __init__(self, settings: RunSettings, ours: Any, max_nodes: int, regression: bool) -> None:
        super().__init__()
        self.settings, self.max_nodes, self.regression = settings, max_nodes, regression
        convs = [GCNConv(*weight.shape) for weight in ours.gcn.weights]
        self.convs = nn.ModuleList(convs)
        for conv, weight, bias in zip(convs, ours.gcn.weights, ours.gcn.biases, strict=True):
            conv.lin.weight.data, conv.bias.data = weight.detach().T.clone(), bias.detach().clone()
        first = ours.head.first
        weight = first.weight.detach().T if isinstance(first, RaggedLinear) else first.weight.detach()
        dense = nn.Linear(weight.size(1), weight.size(0))
        dense.weight.data, dense.bias.data = weight.clone(), first.bias.detach().clone()
        inner = [nn.Linear(layer.in_features, layer.out_features) for layer in (*ours.head.inner, ours.head.last)]
        for layer, source in zip(inner, (*ours.head.inner, ours.head.last), strict=True):
            layer.load_state_dict(source.state_dict())
        self.dense = nn.ModuleList([dense, *inner])
        self.readout = self._readout(ours)

    def _readout(self, ours: Any) -> nn.Module:
        method, d = self.settings.method, self.settings.d
        if method == "sum":
            return SumAggregation()
        if method == "sort":
            return SortAggregation(self.max_nodes)
        if method == "set2set":
            aggregation = Set2Set(d, processing_steps=ours.readout.set2set.processing_steps)
            aggregation.load_state_dict(ours.readout.set2set.state_dict())
            return aggregation
        if method == "kernels":
            self.register_buffer("vectors", ours.readout.centres.float().clone())
        return nn.Identity()

    def forward(self, batch: Any) -> Tensor:
        x = batch.x
        for i, conv in enumerate(self.convs):
            x = conv(x, batch.edge_index)
            if i + 1 < len(self.convs):
                x = x.relu()
        z = self.pool(x, batch.batch)
        for layer in self.dense[:-1]:
            z = layer(z).relu()
        return self.dense[-1](z).squeeze(-1)

    def pool(self, x: Tensor, index: Tensor) -> Tensor:
        method = self.settings.method
        if method == "kernels":
            unit = functional.normalize(x, dim=1)
            return SumAggregation()(torch.exp(-(torch.cdist(unit, self.vectors) ** 2)), index)
        if method in ("sum", "sort", "set2set"):
            return self.readout(x, index)
        if method == "ordering":
            x = torch.cat([x, x.sum(1, keepdim=True)], dim=1)
        dense, mask = to_dense_batch(x, index, max_num_nodes=self.max_nodes)
        if method == "ordering":
            dense = dense.masked_fill(~mask[..., None], float("-inf")).sort(dim=1, descending=True).values
            dense = dense.masked_fill(~mask[..., None], 0.0)
        return dense.flatten(1)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        predictions = self(batch)
        if self.regression:
            return functional.mse_loss(predictions, batch.y)
        return functional.binary_cross_entropy_with_logits(predictions, batch.y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.settings.train.learning_rate)


def plain_run(trial: Trial) -> dict[str, float]:
    """Seconds of `Trainer.fit`, and the largest difference to our predictions at the same weights."""
    settings, manifest = trial.settings, trial.store.manifest
    graphs = to_pyg(trial.store, trial.data.split.train)
    model = PlainModel(settings, trial.task.model, manifest.max_nodes, manifest.task == "regression")
    first = trial.data.split.train[: settings.train.batch_size]
    sample = next(iter(DataLoader(graphs[: len(first)], batch_size=len(first))))
    with torch.no_grad():
        difference = (model(sample) - trial.task.model(trial.store.batch(first))).abs().max().item()
    trainer = pl.Trainer(
        max_epochs=settings.train.epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = DataLoader(graphs, batch_size=settings.train.batch_size, shuffle=True)
    start = time.perf_counter()
    trainer.fit(model, loader)
    return {"seconds": time.perf_counter() - start, "difference": difference}
