"""Batches for training and evaluation. Everything random in epoch e is a function of (seed, e)."""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from permlab.datasets.batch import GraphBatch
from permlab.datasets.randomness import derive_seed, random_order
from permlab.datasets.splits import Split
from permlab.datasets.store import GraphStore

_SHUFFLE, _AUGMENT, _PERMUTE = 11, 12, 13  # entropy that separates the uses of a seed
EVALUATION_BATCH = 256


class TrainLoader:
    """All training graphs, shuffled, with their permuted copies, for the epoch that is current when it is read. If an
    epoch is resumed, the batches that were already trained on are left out.
    """

    def __init__(self, data: "GraphData") -> None:
        self.data = data

    def __len__(self) -> int:
        return self.data.train_steps

    @property
    def left_out(self) -> int:
        """How many batches of the resumed epoch are already done."""
        return self.data.resume_at[1]

    def __iter__(self) -> Iterator[GraphBatch]:
        for step, graphs, copies in self.data.train_plan():
            yield self.data.train_batch(graphs, copies, step)


class EvaluationLoader:
    """A split in order, in large batches; in a `_perm` split every graph's nodes are permuted anew in every epoch."""

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
    `fresh_permutations`, new ones each epoch. `resume_at` is the epoch and batch where training resumes; `last_epoch`,
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
    ) -> None:
        super().__init__()
        self.store, self.split, self.splits, self.seed = store, split, splits, seed
        self.batch_size, self.permutations, self.fresh_permutations = batch_size, permutations, fresh_permutations
        self.repeat_first_epoch = repeat_first_epoch
        self.train_loader: Callable[[GraphData], Iterable[Any]] = TrainLoader
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
    def drawn_epoch(self) -> int:
        """The epoch whose training batches are drawn."""
        return 0 if self.repeat_first_epoch else self.epoch

    @property
    def train_items(self) -> int:
        """Training graphs and their copies."""
        return len(self.split.train) * (1 + self.permutations)

    @property
    def train_steps(self) -> int:
        """Of an epoch."""
        return -(-self.train_items // self.batch_size)

    def train_plan(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(step, graphs [B], copies [B]) for the rest of the current epoch; copy 0 is the graph itself."""
        start = self.resume_at[1] if self.resume_at[0] == self.epoch else 0
        order, train = random_order(self.train_items, self.seed, _SHUFFLE, self.drawn_epoch), self.split.train
        for step in range(start, self.train_steps):
            item = order[step * self.batch_size : (step + 1) * self.batch_size]
            yield step, train[item % len(train)], item // len(train)

    def train_batch(self, graphs: np.ndarray, copies: np.ndarray, step: int = 0) -> GraphBatch:
        if not self.permutations:
            return self.store.batch(graphs, step=step)
        if self.fresh_permutations:
            return self.store.batch(graphs, self.copy_seeds(self.drawn_epoch + 1)[copies], step=step)
        return self.store.batch(graphs, copies, self.orders, step=step)

    def copy_seeds(self, drawn_in: int) -> np.ndarray:
        """The permutation seeds of the original and its copies."""
        copies = range(1, self.permutations + 1)
        return np.array([-1, *(derive_seed(self.seed, _AUGMENT, copy, drawn_in) for copy in copies)])

    @cached_property
    def orders(self) -> np.ndarray:
        """The node orders of the fixed copies: drawn once, because drawing them takes longer than making the batch."""
        return self.store.orders(self.copy_seeds(0).tolist())

    def train_dataloader(self) -> Iterable[Any]:
        return self.train_loader(self)

    def val_dataloader(self) -> list[EvaluationLoader]:
        """What is evaluated after an epoch, in the order of `splits`."""
        return [EvaluationLoader(self, split) for split in self.splits]

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        return batch  # the store already made it on the device
