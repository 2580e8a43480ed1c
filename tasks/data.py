"""Batches for training and evaluation. Everything random in epoch e is a function of (seed, e)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from permlab.datasets.batch import GraphBatch
from permlab.datasets.colours import Colours
from permlab.datasets.randomness import derive_seed, random_order
from permlab.datasets.splits import Split
from permlab.datasets.store import GraphStore

_SHUFFLE, _AUGMENT, _PERMUTE = 11, 12, 13  # what a seed is drawn for, as entropy
EVALUATION_BATCH = 1024


@dataclass
class Call:
    """Successive steps of an epoch, for one call of `training_step`: a batch is made when its turn comes."""

    data: "GraphData"
    epoch: int
    order: np.ndarray  # of the epoch's graphs and copies
    steps: range

    def __iter__(self) -> Iterator[GraphBatch]:
        return self.data.train_batches(self.epoch, self.order, self.steps)


class TrainLoader:
    """All training graphs, shuffled, with their permuted copies: those of the epoch that is current when it is read.

    They come as calls of `steps_a_call` steps: Lightning's own work between two costs as much as a third of a step.
    Where an epoch is resumed, the steps that were taken before are missing, and a call may be empty.
    """

    def __init__(self, data: "GraphData") -> None:
        self.data = data

    def __len__(self) -> int:
        return -(-self.data.train_steps // self.data.steps_a_call)

    def __iter__(self) -> Iterator[Call]:
        data = self.data
        start = data.resume_at[1] if data.resume_at[0] == data.epoch else 0
        epoch = 0 if data.repeat_first_epoch else data.epoch
        order = data.train_order(epoch)
        for first in range(0, data.train_steps, data.steps_a_call):
            last = min(first + data.steps_a_call, data.train_steps)
            yield Call(data, epoch, order, range(max(first, start), max(last, start)))


class EvaluationLoader:
    """A split in order, in large batches; that of `_perm` with every graph's nodes permuted, anew in every epoch."""

    def __init__(self, data: "GraphData", split: str) -> None:
        self.data, self.permuted = data, split.endswith("_perm")
        self.graphs = getattr(data.split, split.removesuffix("_perm"))

    def __len__(self) -> int:
        return -(-len(self.graphs) // EVALUATION_BATCH)

    def __iter__(self) -> Iterator[GraphBatch]:
        seed = derive_seed(self.data.seed, _PERMUTE, self.data.epoch) if self.permuted else None
        for first in range(0, len(self.graphs), EVALUATION_BATCH):
            yield self.data.store.batch(self.graphs[first : first + EVALUATION_BATCH], seed)


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

    @property
    def train_items(self) -> int:
        """Training graphs and their copies."""
        return len(self.split.train) * (1 + self.permutations)

    @property
    def train_steps(self) -> int:
        """An epoch's."""
        return -(-self.train_items // self.batch_size)

    def train_order(self, epoch: int) -> np.ndarray:
        return random_order(self.train_items, self.seed, _SHUFFLE, epoch)

    def train_batches(self, epoch: int, order: np.ndarray, steps: range) -> Iterator[GraphBatch]:
        train = self.split.train
        seeds = self._seeds(epoch + 1) if self.fresh_permutations else None
        for step in steps:
            item = order[step * self.batch_size : (step + 1) * self.batch_size]
            if not self.permutations:
                batch = self.store.batch(train[item], colours=self._colours)
            elif seeds is not None:
                batch = self.store.batch(train[item % len(train)], seeds[item // len(train)], colours=self._colours)
            else:
                batch = self.store.batch(train[item % len(train)], item // len(train), self._orders, self._colours)
            yield batch._replace(step=step)

    def _seeds(self, drawn_in: int) -> np.ndarray:
        """Of the original and its copies."""
        copies = range(1, self.permutations + 1)
        return np.array([-1, *(derive_seed(self.seed, _AUGMENT, copy, drawn_in) for copy in copies)])

    @cached_property
    def _orders(self) -> np.ndarray:
        """The nodes' orders in the fixed copies: drawn once, as to draw them takes longer than to make the batch."""
        return self.store.orders(self._seeds(0).tolist())

    @cached_property
    def _colours(self) -> Colours | None:
        """Of the training graphs alone: nothing in a training step depends on the others."""
        return self.store.colours(self.split.train)

    def train_dataloader(self) -> TrainLoader:
        return TrainLoader(self)

    def val_dataloader(self) -> list[EvaluationLoader]:
        """What is measured after an epoch, in the order of `splits`."""
        return [EvaluationLoader(self, split) for split in self.splits]

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        return batch  # the store made it there
