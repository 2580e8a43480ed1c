"""One cell: settings → fit → result. Plain Python and Lightning; a debugger steps into it."""

import logging
import math
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.profilers import SimpleProfiler

from permlab.datasets.randomness import derive_seed
from permlab.datasets.store import GraphStore
from permlab.platform.checkpoint import RunState, load_state, save_state
from permlab.platform.config import RunSettings, cell_folder, cell_key
from permlab.platform.console import err
from permlab.platform.errors import ConfigError, RunError, RunStopped
from permlab.platform.memory import keep_freed_memory
from permlab.readouts.catalogue import build as build_readout
from permlab.tasks.data import GraphData
from permlab.tasks.gcn import GCN
from permlab.tasks.model import GraphModel, Head
from permlab.tasks.modules import TASKS, GraphTask

STEPS_A_CALL = 32  # a signal is answered, and the bar drawn, after so many steps
_WEIGHTS, _READOUT = 1, 2  # what a seed is drawn for, as entropy


@dataclass
class Result:
    """What a finished cell leaves."""

    dataset: str
    method: str
    d: int
    seed: int
    epochs: int
    key: str
    seconds: float
    metrics: dict[str, dict[str, float]]
    parameters: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    outputs: dict[str, torch.Tensor] = field(default_factory=dict)
    weights: dict[str, torch.Tensor] = field(default_factory=dict)


@dataclass
class Trial:
    """A cell ready to run: `Trial.prepare(settings)`, then `trial.run()`."""

    settings: RunSettings
    store: GraphStore
    data: GraphData
    task: GraphTask
    key: str

    @classmethod
    def prepare(cls, settings: RunSettings, store: GraphStore | None = None) -> "Trial":
        store = store or GraphStore.open(settings.dataset, build_missing=True)
        manifest = store.manifest
        if manifest.task == "classification" and manifest.classes != 2:
            raise RunError(f"{settings.dataset} has {manifest.classes} classes; only two-class data sets are supported")
        held_by = settings.seed if settings.data.split_seed is None else settings.data.split_seed
        split = store.split(held_by, settings.data.holdout, settings.data.validation, settings.seed)
        for part in settings.splits:
            if not len(getattr(split, part.removesuffix("_perm"))):
                raise ConfigError(f"the {part} part is empty; give data.{part} more than nothing")
        store.graph_id, store.y  # noqa: B018  map them now: a cache removed while training must not matter
        data = GraphData(
            store,
            split,
            settings.splits,
            settings.seed,
            settings.train.batch_size,
            settings.permutations,
            settings.train.fresh_permutations,
            bool(settings.train.overfit_batches),
            1 if settings.temporary else STEPS_A_CALL,
        )
        task = TASKS[manifest.task](
            build_model(settings, len(manifest.feature_names), manifest.max_nodes),
            settings.splits,
            settings.train.optimizer,
            settings.train.learning_rate,
            settings.train.weight_decay,
            settings.seed if settings.model.dropout else None,
        )
        return cls(settings, store, data, task, cell_key(settings, manifest.digest))

    @property
    def folder(self) -> Path:
        """Where the run keeps its checkpoint and what it leaves."""
        return cell_folder(self.settings, self.key)

    def run(
        self,
        *,
        callbacks: Iterable[pl.Callback] = (),
        on_epoch: Callable[[list[dict[str, float]]], None] = lambda history: None,
        stop_signal: Callable[[], int] = lambda: 0,
    ) -> Result:
        """Fit from the last checkpoint (or the start) to the end and evaluate.

        `on_epoch` gets the history after every epoch; `stop_signal` is asked after every step and ends the run with
        a checkpoint when it is not 0.
        """
        settings, task, data = self.settings, self.task, self.data
        keep_freed_memory()
        if settings.threads:
            torch.set_num_threads(settings.threads)
        checkpoint = self.folder / "checkpoint.pt"
        state = RunState(self.key) if settings.temporary else load_state(checkpoint, self.key)
        if state.model:
            task.load_state_dict(state.model)
        keeper = _Keeper(state, None if settings.temporary else checkpoint, settings.train, on_epoch, stop_signal)
        profiler = SimpleProfiler() if settings.train.profile else None
        trainer = make_trainer(settings, [keeper, *callbacks], profiler)
        data.resume_at = (state.epoch, state.batch)
        progress: Any = trainer.fit_loop.epoch_progress.current
        progress.processed = progress.completed = state.epoch  # Lightning counts on from there
        if state.epoch < settings.train.epochs:
            trainer.fit(task, datamodule=data)
        if not task.outputs:  # the last epoch was not one of those that are evaluated, or the run ended before this
            data.last_epoch = settings.train.epochs - 1
            trainer.validate(task, datamodule=data, verbose=False)
            if not state.history or state.history[-1]["epoch"] != settings.train.epochs:
                state.history.append({"epoch": settings.train.epochs})
            keeper.check(task, settings.train.epochs)
            state.history[-1] |= flat(task.measured)
            on_epoch(state.history)
        if profiler:
            err.print(profiler.summary(), markup=False)
        return Result(
            settings.dataset,
            settings.method,
            settings.d,
            settings.seed,
            len(state.history),
            self.key,
            state.seconds,
            task.measured,
            sum(parameter.numel() for parameter in task.parameters()),
            state.history,
            task.outputs,
            task.model.state_dict(),
        )


def build_model(settings: RunSettings, in_channels: int, max_nodes: int) -> GraphModel:
    """Γ, φ, ζ with weights drawn from the seed, whatever the global random state is."""
    model = settings.model
    if reserved := {"method", "d", "max_nodes", "seed"} & set(settings.readout):
        raise ConfigError(
            f"readout.{min(reserved)} is set by the run itself; choose another option of {settings.method}"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(settings.seed, _WEIGHTS))
        gcn = GCN(
            in_channels, model.hidden, settings.d, model.layers, model.activation, model.last_activation, model.dropout
        )
        readout_seed = derive_seed(settings.seed, _READOUT) % 2**31
        readout = build_readout(settings.method, settings.d, max_nodes, seed=readout_seed, **settings.readout)
        head = Head(readout, model.head_hidden, model.head_layers, model.activation, model.dropout)
    return GraphModel(gcn, readout, head).float()  # keys are kept in double, which not every device has


def make_trainer(
    settings: RunSettings, callbacks: list[pl.Callback], profiler: SimpleProfiler | None = None
) -> pl.Trainer:
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)  # it announces accelerators and advertises
    warnings.filterwarnings("ignore", module="pytorch_lightning")
    train = settings.train
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(settings.accelerator, True):
        found = ", ".join(["auto", "cpu", *(name for name, there in available.items() if there)])
        raise ConfigError(f"accelerator={settings.accelerator} is not on this machine; choose from {found}")
    # Deterministic mode fills fresh memory, lest somebody reads it unset; nothing here does, and it takes long.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    return _Trainer(
        accelerator="gpu" if settings.accelerator == "cuda" else settings.accelerator,
        devices=1,
        max_epochs=train.epochs,
        check_val_every_n_epoch=train.eval_every,
        num_sanity_val_steps=0,
        deterministic=True,
        fast_dev_run=train.fast_dev_run,
        overfit_batches=train.overfit_batches,
        profiler=profiler,
        callbacks=callbacks,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        plugins=[LightningEnvironment()],  # one process a run, also inside a Slurm allocation
    )


class _Trainer(pl.Trainer):
    """Lightning would leave at SIGTERM wherever it is, with exit code 0; a run answers it itself, when it has saved."""

    @property
    def received_sigterm(self) -> bool:
        return False


def flat(measured: dict[str, dict[str, float]]) -> dict[str, float]:
    """{split: {metric: v}} → {"split/metric": v}."""
    return {f"{split}/{metric}": value for split, part in measured.items() for metric, value in part.items()}


class _Keeper(pl.Callback):
    """Keeps the run's state: history, checkpoints, the answer to a signal, and the watch for a loss that is none."""

    def __init__(
        self,
        state: RunState,
        path: Path | None,
        train: Any,
        on_epoch: Callable[[list[dict[str, float]]], None],
        stop_signal: Callable[[], int],
    ) -> None:
        self.state, self.path, self.train, self.on_epoch, self.stop_signal = state, path, train, on_epoch, stop_signal
        self.started = time.perf_counter()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.started = time.perf_counter() - self.state.seconds
        if self.state.optimizer:
            trainer.optimizers[0].load_state_dict(self.state.optimizer)
            self._task(trainer).resume_loss(self.state.loss_sum, self.state.loss_count)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.stop_signal() and not trainer.is_last_batch:  # the end of the epoch is near, and answers itself
            self.state.epoch, self.state.batch = trainer.current_epoch, batch.steps.stop
            self._stop(trainer)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        task, state, epoch = self._task(trainer), self.state, trainer.current_epoch + 1
        loss = task.running_loss
        self.check(task, epoch)
        entry = {"epoch": epoch, "train/running_loss": loss}
        if task.measured:
            entry |= flat(task.measured)
        if epoch < self.train.epochs:
            task.measured, task.outputs = {}, {}
        state.history.append(entry)
        state.epoch, state.batch = epoch, 0
        task.on_train_epoch_end()  # a checkpoint of an epoch's end holds no half-summed loss
        if self.stop_signal():
            self._stop(trainer)
        elif epoch % self.train.checkpoint_every == 0 or epoch == self.train.epochs:
            self._save(trainer)
        state.seconds = time.perf_counter() - self.started
        if epoch < self.train.epochs or task.outputs:  # else the last epoch is told once, when it is measured
            self.on_epoch(state.history)

    def check(self, task: GraphTask, epoch: int) -> None:
        """A loss that is no number, in training or evaluation, ends the run."""
        losses = {"loss": task.running_loss} | {f"{split} loss": part["loss"] for split, part in task.measured.items()}
        for name, loss in losses.items():
            if not math.isfinite(loss):
                kept = self.path and self.path.exists()
                good = f"the last good checkpoint is {self.path}" if kept else "there is no checkpoint before it"
                raise RunError(f"the {name} is {loss} in epoch {epoch}; {good}; try a smaller train.learning_rate")

    def _save(self, trainer: pl.Trainer) -> None:
        task, state = self._task(trainer), self.state
        if self.path is None or not all(bool(weight.isfinite().all()) for weight in task.parameters()):
            return  # weights that are no numbers are no good checkpoint; the next loss will say so
        state.seconds = time.perf_counter() - self.started
        state.model = task.state_dict()
        state.optimizer = trainer.optimizers[0].state_dict()
        state.loss_sum, state.loss_count = task.loss_so_far()
        save_state(state, self.path)

    def _stop(self, trainer: pl.Trainer) -> None:
        self._save(trainer)
        state = self.state
        where = f"epoch {state.epoch + 1}, batch {state.batch + 1}"
        raise RunStopped(f"stopped before {where}; the same command goes on from {self.path}", self.stop_signal())

    @staticmethod
    def _task(trainer: pl.Trainer) -> GraphTask:
        task = trainer.lightning_module
        assert isinstance(task, GraphTask)
        return task
