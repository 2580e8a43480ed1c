"""One cell: settings → fit → result. Plain Python and Lightning; a debugger can step through it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.profilers import SimpleProfiler

from permlab.datasets.splits import Split
from permlab.datasets.store import GraphStore
from permlab.platform.display.console import note
from permlab.platform.errors import ConfigError
from permlab.platform.plugins.code import errors_of
from permlab.platform.plugins.resolve import callbacks_named
from permlab.platform.run.checkpoint import FILE_NAME as CHECKPOINT
from permlab.platform.run.checkpoint import RunState, load_state
from permlab.platform.run.checkpointing import Keeper, OnEpoch
from permlab.platform.run.engine_choice import choose_engine
from permlab.platform.run.lightning_internals import SignalProofTrainer, set_counters
from permlab.platform.run.model import DataFacts, build_model, build_objective
from permlab.platform.run.numerics import Numerics, device_of, differences, numerics_now
from permlab.platform.run.process_settings import process_for_runs
from permlab.platform.run.split import check_labels, split_of
from permlab.platform.settings.run import RunSettings, cell_folder, cell_key
from permlab.tasks.data import GraphData
from permlab.tasks.model import Standardise, standardise_on
from permlab.tasks.objectives import Objective
from permlab.tasks.scaling import ScaleFeatures, scaling_of
from permlab.tasks.task import LOSS, GraphTask, Recipe

NUMBERS_AT_ONCE = 2**18  # features that are read together for their statistics: 1 MB
OnStart = Callable[[dict[str, str], list[Numerics]], None]
# Lightning's names; those of mixed precision are the same as ours
PRECISION: dict[int | str, Any] = {32: "32-true", 64: "64-true"}


@dataclass
class Result:
    """The outcome of a finished cell."""

    dataset: str
    method: str
    d: int
    seed: int
    epochs: int
    key: str
    seconds: float
    metrics: dict[str, dict[str, float]]
    engine: dict[str, str] = field(default_factory=dict)  # name, and why it is not the fast one
    numerics: list[Numerics] = field(default_factory=list)  # several if the run was resumed under others
    best_epoch: int | None = None  # the epoch of these weights, if `train.patience` is set
    ended_early: str = ""  # where a callback ended the training, if one did
    parameters: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    outputs: dict[str, torch.Tensor] = field(default_factory=dict)
    weights: dict[str, torch.Tensor] = field(default_factory=dict)


@dataclass
class Training:
    """A cell ready to run: `Training.prepare(settings)`, then `training.run()`."""

    settings: RunSettings
    store: GraphStore
    data: GraphData
    task: GraphTask
    key: str

    @classmethod
    def prepare(cls, settings: RunSettings, store: GraphStore | None = None) -> "Training":
        store = store or open_store(settings)
        facts = DataFacts.of_store(store, settings)
        split = split_of(store, settings)
        check_labels(store, split)
        store.graph_id, store.y  # noqa: B018  map them now, so that the cache may be removed while training
        data = GraphData(
            store,
            split,
            settings.splits,
            settings.seed,
            settings.train.batch_size,
            settings.permutations,
            settings.train.fresh_permutations,
            bool(settings.train.overfit_batches),
        )
        mean, std = (
            standardise_on(torch.from_numpy(store.y[split.train])) if settings.objective.standardise else (0, None)
        )
        objective = build_objective(settings, facts, std)
        check_monitor(settings, objective)
        scale = None if std is None else Standardise(mean, std)
        model = build_model(settings, facts, objective.outputs, scale, feature_scaling(settings, store, split))
        task = GraphTask(model, objective, settings.splits, recipe_of(settings))
        return cls(settings, store, data, task, cell_key(settings, store.manifest.digest))

    @property
    def folder(self) -> Path:
        """Where the run keeps its checkpoint and its files."""
        return cell_folder(self.settings, self.key)

    def run(
        self,
        *,
        callbacks: Iterable[pl.Callback] = (),
        on_start: OnStart = lambda engine, numerics: None,
        on_epoch: OnEpoch = lambda history: None,
        stop_signal: Callable[[], int] = lambda: 0,
    ) -> Result:
        """Fit from the last checkpoint (or the start) to the end and evaluate; restores the state of the process.

        `on_start` gets engine and numerics, `on_epoch` the history after every epoch; `stop_signal` is called between
        steps and ends the run with a checkpoint when it is not 0.
        """
        with process_for_runs(self.settings.threads), errors_of(self.settings.plugs):
            return self._run(list(callbacks), on_start, on_epoch, stop_signal)

    def _run(
        self,
        callbacks: list[pl.Callback],
        on_start: OnStart,
        on_epoch: OnEpoch,
        stop_signal: Callable[[], int],
    ) -> Result:
        settings, data, train = self.settings, self.data, self.settings.train
        checkpoint = None if settings.temporary else self.folder / CHECKPOINT
        state = load_state(checkpoint, self.key) if checkpoint else RunState(self.key)
        keeper = Keeper(state, checkpoint, train, on_epoch, stop_signal)
        profiler = SimpleProfiler() if train.profile else None
        named = callbacks_named(train.callbacks)
        keeper.watched = dict(zip(train.callbacks, named, strict=True))
        trainer = make_trainer(settings, [keeper, *named, *callbacks], profiler)
        engine = choose_engine(settings, self.task, data, trainer.callbacks)  # type: ignore[attr-defined]
        try:
            if state.model:  # after the choice, so that weights cannot change it
                self.task.model.load_state_dict(state.model)
            _take_part(state, numerics_now(engine.name, settings.accelerator, settings.customised), settings.name)
            on_start(engine.facts, state.numerics)
            self._fit(trainer, engine.task, keeper)
        finally:
            engine.release()
        self.task.measured, self.task.outputs = engine.task.measured, engine.task.outputs
        if profiler:
            note(profiler.summary())
        return Result(
            settings.dataset,
            settings.method,
            settings.d,
            settings.seed,
            len(state.history),
            self.key,
            state.seconds,
            self.task.measured,
            engine.facts,
            state.numerics,
            state.best_epoch,
            state.ended_early,
            sum(parameter.numel() for parameter in self.task.parameters()),
            state.history,
            self.task.outputs,
            self.task.model.state_dict(),
        )

    def _fit(self, trainer: pl.Trainer, task: GraphTask, keeper: Keeper) -> None:
        """Train the remaining epochs, and evaluate the final weights: with `data.test`, the holdout is read here."""
        state = keeper.state
        if not keeper.over:
            resume(trainer, self.data, state)
            trainer.fit(task, datamodule=self.data)
        if not task.outputs:  # the last epoch was not evaluated, or the run was killed before this
            self._evaluate(trainer, task, state.epoch)
            keeper.check(task, state.epoch)
            keeper.evaluated(task)
            keeper.on_epoch(state.history)
        chosen = state.epoch if state.best_epoch is None else state.best_epoch
        if self.settings.train.patience and state.best_epoch is None:
            note(f"the validation metric was NaN at every evaluation: these are the weights of epoch {chosen}")
        if chosen != state.epoch:
            task.model.load_state_dict(state.best_weights)
        task.splits = self.data.splits = self.settings.splits_at_end
        if chosen != state.epoch or self.settings.data.test:
            self._evaluate(trainer, task, chosen)

    def _evaluate(self, trainer: pl.Trainer, task: GraphTask, epoch: int) -> None:
        """Evaluate the current weights, with the permutations of the end of this epoch."""
        self.data.last_epoch = epoch - 1
        trainer.validate(task, datamodule=self.data, verbose=False)


def open_store(settings: RunSettings) -> GraphStore:
    """The run's data set, built if it is missing, with the target that the run asks for."""
    return GraphStore.open(settings.dataset, settings.data.target, build_missing=True)


def feature_scaling(settings: RunSettings, store: GraphStore, split: Split) -> ScaleFeatures | None:
    """Statistics of the training part alone, some nodes at a time: all features at once may fill the memory."""
    if settings.model.feature_scaling == "none":
        return None
    trained_on = np.zeros(len(store), dtype=bool)
    trained_on[split.train] = True
    nodes = np.flatnonzero(np.repeat(trained_on, np.diff(store.node_ptr)))
    rows = max(1, NUMBERS_AT_ONCE // len(store.manifest.feature_names))

    def blocks() -> Iterator[np.ndarray]:
        return (store.raw_features(nodes[first : first + rows]) for first in range(0, len(nodes), rows))

    return scaling_of(settings.model.feature_scaling, blocks)


def check_monitor(settings: RunSettings, objective: Objective) -> None:
    monitor = settings.train.monitor
    if monitor and monitor not in objective.metrics:
        raise ConfigError(f"train.monitor={monitor}: {settings.dataset} is measured by {', '.join(objective.metrics)}")


def recipe_of(settings: RunSettings) -> Recipe:
    """How the weights are trained. It never uses the holdout."""
    train, validated = settings.train, settings.data.validated
    return Recipe(
        train.optimizer,
        train.learning_rate,
        train.weight_decay,
        train.scheduler,
        train.epochs,
        monitor="validation/loss" if validated else LOSS,
        monitor_every=train.eval_every if validated else 1,
        noise_seed=settings.seed,
    )


def resume(trainer: pl.Trainer, data: GraphData, state: RunState) -> None:
    """Set Lightning's counters to the state of the run: epochs, batches of this epoch, optimiser steps."""
    data.resume_at, data.last_epoch = (state.epoch, state.batch), None
    loader: Any = data.train_dataloader()
    set_counters(trainer, state.epoch, loader.left_out, state.epoch * data.train_steps + state.batch)


def _take_part(state: RunState, numerics: Numerics, name: str) -> None:
    """Record the numerics of this process; a run with several is mixed, and a note says so."""
    if state.numerics and (changed := differences(state.numerics[-1], numerics)):
        same_code = state.numerics[-1].get("code") == numerics["code"]
        outcome = "its numbers will be right, but not to the last bit" if same_code else "part of it is by other code"
        note(f"{name} resumes under other numerics ({changed}): {outcome}")
    state.numerics = [*(other for other in state.numerics if other != numerics), numerics]


def make_trainer(
    settings: RunSettings, callbacks: list[pl.Callback], profiler: SimpleProfiler | None = None
) -> pl.Trainer:
    train, device = settings.train, device_of(settings.accelerator)
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(settings.accelerator, True):
        choices = ", ".join(["auto", "cpu", *(name for name, usable in available.items() if usable)])
        raise ConfigError(f"accelerator={settings.accelerator} is not on this machine; choose from {choices}")
    if train.precision == "16-mixed" and device == "cpu":
        raise ConfigError("train.precision=16-mixed needs a GPU; choose 32, 64 or bf16-mixed")
    return SignalProofTrainer(
        accelerator="gpu" if settings.accelerator == "cuda" else settings.accelerator,
        devices=1,
        precision=PRECISION.get(train.precision, train.precision),
        max_epochs=train.epochs,
        check_val_every_n_epoch=train.eval_every,
        gradient_clip_val=train.gradient_clip,
        num_sanity_val_steps=0,
        deterministic=True,
        fast_dev_run=train.fast_dev_run,
        overfit_batches=train.overfit_batches,
        inference_mode=False,  # a readout may take gradients inside its forward, as PyG's EquilibriumAggregation
        profiler=profiler,
        callbacks=callbacks,
        logger=False,
        enable_checkpointing=any(isinstance(callback, pl.callbacks.Checkpoint) for callback in callbacks),
        enable_progress_bar=any(isinstance(callback, pl.callbacks.ProgressBar) for callback in callbacks),
        enable_model_summary=False,
        use_distributed_sampler=False,
        plugins=[LightningEnvironment()],  # one process per run, also inside a Slurm allocation
    )
