"""Small tasks and data for the tests of the engine."""

from typing import Any

import numpy as np
import torch

from permlab.datasets.store import GraphStore
from permlab.readouts.catalogue import build
from permlab.tasks.data import GraphData
from permlab.tasks.gcn import GCN
from permlab.tasks.model import GraphModel, Head
from permlab.tasks.objectives import Objective, choose_objective
from permlab.tasks.task import GraphTask, Recipe


def make_task(
    store: GraphStore,
    method: Any = "sum",
    *,
    d: int = 5,
    layers: int = 3,
    activation: str = "relu",
    last_activation: str = "none",
    dropout: float = 0.0,
    objective: Objective | str = "classification",
    recipe: Recipe | None = None,
    **options: Any,
) -> GraphTask:
    """A small model with biases that are not 0, the same at every call."""
    torch.manual_seed(0)
    readout = build(method, d, store.manifest.max_nodes, **options) if isinstance(method, str) else method
    channels = len(store.manifest.feature_names)
    gcn = GCN(channels, 18, d, layers, activation, last_activation, dropout)
    for bias in gcn.biases:
        torch.nn.init.normal_(bias)
    model = GraphModel(gcn, readout, Head(readout, 9, 3, activation, dropout)).float()
    objective = choose_objective(objective, ("y",), 2) if isinstance(objective, str) else objective
    return GraphTask(model, objective, ("train",), recipe)


def make_data(store: GraphStore, batch_size: int = 64, **options: Any) -> GraphData:
    everything = np.arange(len(store))
    split = store.split(0)._replace(train=everything, holdout=everything[:10])
    return GraphData(store, split, ("train",), 0, batch_size, **options)
