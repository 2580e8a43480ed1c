"""One cell measured on both sides. Runs in a worker: see `worker.py`."""

import gc
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from permlab.platform.bench.plain_pyg import PlainModel, fit, permuted_copies
from permlab.platform.bench.stopwatch import Stopwatch
from permlab.platform.bench.work import work_of
from permlab.platform.files.json_files import read_json
from permlab.platform.run.train import train
from permlab.platform.run.training import Training
from permlab.platform.settings.run import ModelSettings, RunSettings, cell_folder, cell_key
from permlab.platform.settings.words import load_named
from permlab.platform.sweep.plan import manifest_of
from permlab.tasks.pyg import to_pyg


def ours(cell: dict[str, Any], epochs: int) -> dict[str, Any]:
    """Seconds for `epochs` epochs of `permlab train`, courier included if the cell is tracked, and the engine used."""
    settings, watch = _settings(cell), Stopwatch(epochs)
    gc.collect()
    seconds = watch.time(lambda: train(settings, fresh=True, callbacks=[watch]))
    folder = cell_folder(settings, cell_key(settings, manifest_of(settings.dataset).digest))
    engine = (read_json(folder / "run.json") or {})["engine"]
    return {"seconds": seconds, "engine": engine["name"], "engine_reason": engine["reason"]}


def plain(cell: dict[str, Any], epochs: int) -> float:
    """Seconds for `epochs` epochs of the plain script on the same graphs."""
    settings, watch = _settings(cell), Stopwatch(epochs)
    training = _prepare(settings)
    model = PlainModel(settings, training.task.model, training.store.manifest)
    loader = DataLoader(_graphs(settings), batch_size=settings.train.batch_size, shuffle=True)
    gc.collect()
    return watch.time(lambda: fit(model, loader, [watch]))


def compare(cell: dict[str, Any]) -> dict[str, Any]:
    """Both losses on the first training graphs at the same weights, steps per epoch, work per step."""
    settings = _settings(cell)
    training = _prepare(settings)
    manifest, train_part = training.store.manifest, training.data.split.train
    first = train_part[: settings.train.batch_size]
    model = PlainModel(settings, training.task.model, manifest)
    batch = training.store.batch(first)
    training.task.eval(), model.eval()  # no dropout: its masks would differ
    with torch.no_grad():
        loss = training.task.objective.loss(training.task.model(batch), batch.y).item()
        sample = next(iter(DataLoader(_graphs(settings)[: len(first)], batch_size=len(first))))
        plain_loss = model.training_step(sample, 0).item()
    items, steps = training.data.train_items, training.data.train_steps
    nodes = int(np.diff(training.store.node_ptr)[train_part].sum()) * (1 + settings.permutations) / steps
    entries = int(_entries(training)) * (1 + settings.permutations) / steps
    work = work_of(training.task.model, settings, manifest, items / steps, nodes, entries)
    return {"loss": loss, "plain_loss": plain_loss, "steps_an_epoch": steps} | work


def _settings(cell: dict[str, Any]) -> RunSettings:
    """The settings of a cell; the code that they name was named by the user of the benchmark."""
    settings = RunSettings.model_validate(cell)
    load_named(settings)
    return settings


def _entries(training: Training) -> int:
    """Entries of Â over the training part."""
    store, part = training.store, training.data.split.train
    return int((store.a_ptr[store.node_ptr[part + 1]] - store.a_ptr[store.node_ptr[part]]).sum())


def _prepare(settings: RunSettings) -> Training:
    """Also sets the number of threads, which the plain side would not."""
    torch.set_num_threads(settings.threads or 1)
    return Training.prepare(settings)


def _graphs(settings: RunSettings) -> list[Data]:
    key = settings.model_copy(update={"d": 1, "model": ModelSettings(), "runs": ""})
    return _pyg_graphs(key.model_dump_json())


@lru_cache(maxsize=1)
def _pyg_graphs(settings: str) -> list[Data]:
    """The training part as PyG objects, then its permuted copies, materialised."""
    training = _prepare(RunSettings.model_validate_json(settings))
    graphs = to_pyg(training.store, training.data.split.train, edge_features=False)
    return graphs + permuted_copies(graphs, training.settings.permutations, training.settings.seed)


def forget(folder: str) -> None:
    """Remove the folders of the measured runs."""
    import shutil

    shutil.rmtree(Path(folder) / "cells", ignore_errors=True)
