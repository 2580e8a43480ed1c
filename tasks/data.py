"""Batches for training and evaluation. Everything random in epoch e is a function of (seed, e)."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from permlab.datasets.batch import GraphBatch
from permlab.datasets.randomness import derive_seed, random_order
from permlab.datasets.splits import Split
from permlab.datasets.store import GraphStore

_SHUFFLE, _AUGMENT, _PERMUTE = 11, 12, 13  # what a seed is drawn for, as entropy
EVALUATION_BATCH = 1024


class TrainLoader:
    """The batches of one epoch, from batch `start` on: all training graphs, shuffled, with their permuted copies.

    They come in lists of `steps_a_call`: Lightning's own work between two steps costs as much as a third of a step.
    """

    def __init__(self, data: "GraphData", epoch: int, start: int = 0) -> None:
        self.data, self.epoch, self.start = data, 0 if data.repeat_first_epoch else epoch, start
        self.items = len(data.split.train) * (1 + data.permutations)

    @property
    def steps(self) -> range:
        return range(self.start, -(-self.items // self.data.batch_size))

    def __len__(self) -> int:
        return -(-len(self.steps) // self.data.steps_a_call)

    def __iter__(self) -> Iterator[list[GraphBatch]]:
        batches = self.batches()
        while call := list(islice(batches, self.data.steps_a_call)):
            yield call

    def batches(self) -> Iterator[GraphBatch]:
        data, train = self.data, self.data.split.train
        order = random_order(self.items, data.seed, _SHUFFLE, self.epoch)
        drawn_in = self.epoch + 1 if data.fresh_permutations else 0
        copies = range(1, data.permutations + 1)
        seeds = np.array([-1, *(derive_seed(data.seed, _AUGMENT, copy, drawn_in) for copy in copies)])
        for step in self.steps:
            item = order[step * data.batch_size : (step + 1) * data.batch_size]
            graphs = train[item % len(train)]
            permutation = seeds[item // len(train)] if data.permutations else None
            yield data.store.batch(graphs, permutation)._replace(step=step)


class EvaluationLoader:
    """A split in order, in large batches; with a seed, every graph's nodes permuted."""

    def __init__(self, store: GraphStore, graphs: np.ndarray, permutation_seed: int | None = None) -> None:
        self.store, self.graphs, self.permutation_seed = store, graphs, permutation_seed

    def __len__(self) -> int:
        return -(-len(self.graphs) // EVALUATION_BATCH)

    def __iter__(self) -> Iterator[GraphBatch]:
        for first in range(0, len(self.graphs), EVALUATION_BATCH):
            yield self.store.batch(self.graphs[first : first + EVALUATION_BATCH], self.permutation_seed)


class GraphData(pl.LightningDataModule):
    """Splits train, holdout, holdout_perm (its nodes permuted in the data) and validation.

    `permutations` adds that many permuted copies of every training graph: fixed ones as in the paper, or, with
    `fresh_permutations`, new ones each epoch. `resume_at` is the epoch and batch where training goes on; `last_epoch`,
    once training is over, the epoch whose end is evaluated. `repeat_first_epoch` gives the same batches in every epoch
    (to overfit a few of them).
    """

    def __init__(
        self,
        store: GraphStore,
        split: Split,
        splits: tuple[str, ...],
        seed: int,
        batch_size: int = 128,
        permutations: int = 0,
        fresh_permutations: bool = False,
        repeat_first_epoch: bool = False,
        steps_a_call: int = 1,
    ) -> None:
        super().__init__()
        self.store, self.split, self.splits, self.seed = store, split, splits, seed
        self.batch_size, self.permutations, self.fresh_permutations = batch_size, permutations, fresh_permutations
        self.repeat_first_epoch, self.steps_a_call = repeat_first_epoch, steps_a_call
        self.resume_at = (0, 0)
        self.last_epoch: int | None = None

    def setup(self, stage: str) -> None:
        if self.trainer is not None:
            self.store = self.store.to(self.trainer.strategy.root_device)

    @property
    def epoch(self) -> int:
        if self.last_epoch is not None:
            return self.last_epoch
        return self.trainer.current_epoch if self.trainer is not None else 0

    def train_dataloader(self) -> TrainLoader:
        """Of the current epoch: Lightning asks anew at every epoch's start."""
        epoch, batch = self.resume_at
        return TrainLoader(self, self.epoch, batch if epoch == self.epoch else 0)

    def val_dataloader(self) -> list[EvaluationLoader]:
        """What is measured after the current epoch, in the order of `splits`."""
        return [self.evaluation_loader(split) for split in self.splits]

    def evaluation_loader(self, split: str) -> EvaluationLoader:
        part = getattr(self.split, split.removesuffix("_perm"))
        permuted = derive_seed(self.seed, _PERMUTE, self.epoch) if split.endswith("_perm") else None
        return EvaluationLoader(self.store, part, permuted)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        return batch  # the store made it there
