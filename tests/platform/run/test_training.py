"""One cell: the same numbers however it was interrupted."""

import signal
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import pytorch_lightning as pl
import torch

from permlab.datasets.splits import Split
from permlab.platform.errors import RunError, RunStopped
from permlab.platform.run.cell import run_cell
from permlab.platform.run.checkpoint import load_state
from permlab.platform.run.predict import FinishedRun
from permlab.platform.run.signals import stop_on_signal
from permlab.platform.run.training import Result, Training, feature_scaling
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import read_settings
from permlab.readouts.names import PAPER_METHODS
from tests.datasets.stores import build_store

DATA = "dataset=synthetic,graphs=90,max_nodes=8,task=classification"


@pytest.fixture
def cell(tmp_path: Path):
    def prepare(*words: str, runs: str = "runs") -> Training:
        fixed = [
            DATA,
            "train.epochs=6",
            "train.batch_size=16",
            "train.eval_every=2",
            "threads=1",
            f"runs={tmp_path / runs}",
        ]
        return Training.prepare(read_settings(RunSettings, [*fixed, *words]))

    return prepare


def same(left: Result, right: Result) -> None:
    """Identical to the last bit: metrics, curves, predictions, weights."""
    assert left.metrics == right.metrics and left.history == right.history
    for split, predictions in left.outputs.items():
        assert torch.equal(predictions, right.outputs[split]), split
    for name, weight in left.weights.items():
        assert torch.equal(weight, right.weights[name]), name


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_the_same_seed_gives_the_same_numbers(cell, method: str) -> None:
    torch.manual_seed(1)
    first = cell(f"method={method}", runs="a").run()
    torch.manual_seed(2)  # the global random state must not matter
    second = cell(f"method={method}", runs="b").run()
    same(first, second)
    gap = abs(first.metrics["holdout"]["auc"] - first.metrics["holdout_perm"]["auc"])
    assert gap < 1e-5 or method in ("identity", "augment")


def test_another_seed_gives_other_numbers(cell) -> None:
    assert cell("seed=1").run().metrics != cell("seed=2").run().metrics


def stopped_then_resumed(cell, options: list[str], *stops: int) -> tuple[Result, Result]:
    """A run stopped once per entry of `stops`, after that many checks for a signal, and resumed; and one left alone."""
    whole = cell(*options, runs="whole").run()
    for stop_after in stops:
        checks = iter([0] * (stop_after - 1))
        with pytest.raises(RunStopped, match="resumes") as stopped:
            cell(*options, runs="parts").run(stop_signal=lambda checks=checks: next(checks, signal.SIGTERM))
        assert stopped.value.exit_code == 143
    return cell(*options, runs="parts").run(), whole


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["model.dropout=0.3"],
        ["model.norm=batch", "model.feature_scaling=standard", "train.optimizer=momentum"],
        ["method=augment", "train.fresh_permutations=true"],
        ["train.scheduler=cosine"],
        ["train.scheduler=plateau", "train.optimizer=sgd", "train.learning_rate=0.5"],
        ["train.scheduler=plateau", "data.validation=0.3"],
        ["train.patience=1", "data.validation=0.3", "train.learning_rate=0.05"],
        ["train.precision=64"],
        ["train.gradient_clip=0.01"],
    ],
)
@pytest.mark.parametrize("stop_after", [1, 5, 11])
def test_a_run_stopped_at_any_step_ends_as_one_that_was_not(cell, options: list[str], stop_after: int) -> None:
    same(*stopped_then_resumed(cell, [*options, "train.engine=plain"], stop_after))


@pytest.mark.parametrize("options", [["method=ordering"], ["model.dropout=0.3"]])
@pytest.mark.parametrize("stop_after", [1, 2, 4, 5])
def test_the_fast_engine_resumes_within_an_epoch_too(cell, options: list[str], stop_after: int) -> None:
    """It takes 32 steps per call; the epochs here have 72."""
    pytest.importorskip("numba")
    engine = ["train.engine=fast", "train.batch_size=1", "train.epochs=3"]
    same(*stopped_then_resumed(cell, [*options, *engine], stop_after))


def test_the_fast_engine_stopped_again_before_it_took_a_step(cell) -> None:
    """Calls whose steps were already taken are empty; a signal between them must not rewind the run."""
    pytest.importorskip("numba")
    engine = ["train.engine=fast", "train.batch_size=1", "train.epochs=2"]
    same(*stopped_then_resumed(cell, engine, 3, 2, 2))


@pytest.mark.parametrize("engine", ["plain", "auto"])
@pytest.mark.parametrize("after", [1, 2, 3, 4, 5, 6, 7])
def test_sigterm_is_handled_by_the_run_not_by_lightning(cell, after: int, engine: str) -> None:
    """Wherever it arrives, between batches, in an evaluation or at an epoch's end: a checkpoint, then exit code 143."""
    whole = cell(f"train.engine={engine}", runs="whole").run()
    calls = 0

    class Signal(pl.Callback):
        engine_safe = True

        def _count(self) -> None:
            nonlocal calls
            calls += 1
            if calls == after:
                signal.raise_signal(signal.SIGTERM)

        def on_train_batch_start(self, *args: object) -> None:
            self._count()

        def on_validation_batch_start(self, *args: object) -> None:
            self._count()

    with stop_on_signal() as stop_signal, pytest.raises(RunStopped) as stopped:
        cell(f"train.engine={engine}", runs="parts").run(callbacks=[Signal()], stop_signal=stop_signal)
    assert stopped.value.exit_code == 143
    same(cell(f"train.engine={engine}", runs="parts").run(), whole)


def test_a_run_killed_between_checkpoints_repeats_what_was_lost(cell) -> None:
    whole = cell("train.checkpoint_every=2", runs="whole").run()

    class Killed(BaseException):
        pass

    def die(history: list[dict[str, float]]) -> None:
        if history[-1]["epoch"] == 5:
            raise Killed

    with pytest.raises(Killed):
        cell("train.checkpoint_every=2", runs="parts").run(on_epoch=die)
    rest = cell("train.checkpoint_every=2", runs="parts")
    assert load_state(rest.folder / "checkpoint.pt", rest.key).epoch == 4
    same(rest.run(), whole)


@pytest.mark.parametrize(
    ("damaged", "says"),
    [
        (["checkpoint.pt"], "resumes in epoch 3"),
        (["checkpoint.before"], None),  # it is not read
        (["checkpoint.pt", "checkpoint.before"], "starts anew"),
    ],
)
def test_a_run_whose_checkpoint_is_damaged_ends_as_one_that_was_left_alone(
    cell, damaged: list[str], says: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = cell("train.checkpoint_every=2", runs="whole").run()

    def stop(history: list[dict[str, float]]) -> None:
        if history[-1]["epoch"] == 5:
            raise RunError("enough")

    with pytest.raises(RunError, match="enough"):
        cell("train.checkpoint_every=2", runs="parts").run(on_epoch=stop)
    rest = cell("train.checkpoint_every=2", runs="parts")
    for name in damaged:
        content = bytearray((rest.folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (rest.folder / name).write_bytes(content)
    same(rest.run(), whole)
    lines = [line for line in capsys.readouterr().err.splitlines() if "is damaged" in line]
    assert len(lines) == (len(damaged) if says else 0) and all(says in line for line in lines)


def test_a_run_killed_after_its_last_epoch_only_evaluates(cell) -> None:
    class Count(pl.Callback):
        engine_safe = True
        batches = 0

        def on_train_batch_start(self, *args: object) -> None:
            self.batches += 1

    first, again = Count(), Count()
    whole = cell(runs="whole").run(callbacks=[first])
    same(cell(runs="whole").run(callbacks=[again]), whole)  # its checkpoint is of the last epoch
    assert first.batches > 0 == again.batches


@pytest.mark.parametrize("eval_every", [1, 4, 100])
def test_evaluation_does_not_change_training_and_is_always_at_the_end(cell, eval_every: int) -> None:
    result = cell(f"train.eval_every={eval_every}", runs=str(eval_every)).run()
    reference = cell("train.eval_every=6", runs="reference").run()
    assert result.metrics == reference.metrics
    measured = [entry["epoch"] for entry in result.history if "holdout/auc" in entry]
    assert measured == {1: [1, 2, 3, 4, 5, 6], 4: [4, 6], 100: [6]}[eval_every]
    assert [entry["epoch"] for entry in result.history] == [1, 2, 3, 4, 5, 6]


def test_threads_do_not_change_the_first_losses(cell) -> None:
    one = cell("threads=1", "train.epochs=1", runs="one").run().history[0]["train/running_loss"]
    two = cell("threads=2", "train.epochs=1", runs="two").run().history[0]["train/running_loss"]
    assert one == pytest.approx(two, abs=1e-5)


def test_a_loss_that_is_not_finite_ends_the_run(cell) -> None:
    training = cell("train.checkpoint_every=1", "train.learning_rate=1e30", "train.optimizer=sgd")
    with pytest.raises(RunError, match=r"loss is (nan|inf) in epoch \d+.*train\.learning_rate"):
        training.run()


def test_validation_takes_the_place_of_the_holdout(cell) -> None:
    metrics = cell("data.validation=0.25").run().metrics
    assert set(metrics) == {"train", "validation"}


def test_lightnings_own_switches(cell) -> None:
    quick = cell("train.fast_dev_run=true")
    assert quick.run().metrics and not quick.folder.exists()
    memorised = cell("train.overfit_batches=1", "train.epochs=3").run()
    assert len(memorised.history) == 3


def test_regression(cell) -> None:
    result = cell("dataset=synthetic,graphs=90,max_nodes=8", "train.epochs=40", "train.learning_rate=3e-3").run()
    assert set(result.metrics["holdout"]) == {"loss", "mae"}
    assert result.history[-1]["train/loss"] < 0.5 * result.history[1]["train/loss"]


@pytest.fixture
def rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A TU archive of three classes: rings of 3, 4 and 5 nodes."""
    indicator, edges, first = [], [], 1
    for graph in range(60):
        size = 3 + graph % 3
        indicator += [f"{graph + 1}"] * size
        edges += [f"{first + i}, {first + (i + 1) % size}\n{first + (i + 1) % size}, {first + i}" for i in range(size)]
        first += size
    parts = {"A": edges, "graph_indicator": indicator, "graph_labels": [f"{graph % 3}" for graph in range(60)]}
    with zipfile.ZipFile(tmp_path / "RINGS.zip", "w") as file:
        for part, lines in parts.items():
            file.writestr(f"RINGS/RINGS_{part}.txt", "\n".join(lines) + "\n")
    monkeypatch.setenv("PERMLAB_MIRROR", str(tmp_path))
    return "tu:RINGS"


def test_three_classes_from_training_to_predictions(rings: str, tmp_path: Path) -> None:
    words = [f"dataset={rings}", "method=sum", "d=2", "train.epochs=30", "train.batch_size=8", "data.validation=0.2"]
    words += ["data.split_seed=0", "train.patience=20", "train.learning_rate=1e-2", "threads=1", "track=false"]
    settings = read_settings(RunSettings, [*words, f"runs={tmp_path / 'runs'}"])
    result = run_cell(settings)
    assert set(result["metrics"]["validation"]) == {"loss", "acc", "auc", "f1"}
    assert result["metrics"]["train"]["acc"] == 1 and "MultiClass" in result["engine"]["reason"]
    (folder,) = (tmp_path / "runs" / "cells").iterdir()
    stored = pd.read_parquet(folder / "predictions.parquet")
    outputs = stored[[f"prediction_{c}" for c in range(3)]].to_numpy()
    train = stored["split"] == "train"
    assert (outputs.argmax(axis=1) == stored["y"])[train].all()
    _, predictions, metrics = FinishedRun.load(folder).predict(rings)
    assert predictions.shape == (60, 3) and metrics["acc"] > 0.9


def test_overfitting_sees_the_same_batches_again(cell) -> None:
    data = cell("train.overfit_batches=1").data
    first = next(iter(data.train_dataloader()))
    data.last_epoch = 7
    later = next(iter(data.train_dataloader()))
    assert torch.equal(first.x, later.x)


def test_a_cache_removed_while_training_does_not_matter(cell) -> None:
    import shutil

    whole = cell(runs="whole").run()
    training = cell(runs="parts")

    def remove(history: list[dict[str, float]]) -> None:
        shutil.rmtree(training.store.folder, ignore_errors=True)

    same(training.run(on_epoch=remove), whole)


def test_weights_that_are_not_finite_are_not_saved(cell) -> None:
    training = cell("train.checkpoint_every=1", "train.learning_rate=1e30", "train.optimizer=sgd")
    with pytest.raises(RunError):
        training.run()
    assert not (training.folder / "checkpoint.pt").exists()


RECIPES = [
    ["model.norm=batch"], ["model.norm=layer"], ["model.bias=false"], ["model.feature_scaling=standard"],
    ["model.feature_scaling=minmax"], ["train.optimizer=momentum"], ["model.init=glorot"], ["model.init=kipf"],
]  # fmt: skip


def test_every_part_of_a_recipe_changes_training_and_holds_on_permuted_nodes(cell) -> None:
    results = [cell(*words, runs=str(i)).run() for i, words in enumerate([[], *RECIPES])]
    losses = {result.metrics["train"]["loss"] for result in results}
    assert len(losses) == len(results)
    for words, result in zip([[], *RECIPES], results, strict=True):
        assert result.metrics["holdout"]["auc"] == result.metrics["holdout_perm"]["auc"], words
        drawn = not words or words[0].startswith("model.init")
        assert result.engine["name"] == ("fast" if drawn else "plain"), (words, result.engine)
        assert drawn or words[0] in result.engine["reason"]


def test_features_are_scaled_by_the_training_graphs_alone_and_so_are_predictions(cell, tmp_path: Path) -> None:
    training = cell("model.feature_scaling=standard", "data.holdout=30", "data.split_seed=3")
    nodes = np.concatenate(
        [np.arange(*training.store.node_ptr[graph : graph + 2]) for graph in training.data.split.train]
    )
    x = training.store.raw_features(nodes).astype(np.float64)
    assert torch.equal(training.task.model.features.shift, torch.from_numpy(x.mean(axis=0)).float())
    result = run_cell(training.settings)
    finished = FinishedRun.load(training.folder)
    assert torch.equal(finished.model.features.shift, training.task.model.features.shift)
    store, predictions, _ = finished.predict(training.settings.dataset)
    measured = finished.measure(predictions, store, training.data.split.holdout)
    assert measured == pytest.approx(result["metrics"]["holdout"])


@pytest.mark.parametrize("name", ["standard", "minmax"])
def test_statistics_of_many_features_take_little_memory(tmp_path: Path, name: str) -> None:
    store = build_store("synthetic,graphs=2000,min_nodes=60,max_nodes=60,features=50", tmp_path)
    split = Split(np.arange(0, 2000, 2), np.arange(1, 2000, 2), np.array([], dtype=np.int64))
    settings = read_settings(RunSettings, [f"model.feature_scaling={name}"])
    assert len(store.shards[0].x) == 120_000  # opened, not counted below
    tracemalloc.start()
    try:
        scaling = feature_scaling(settings, store, split)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    x = store.shards[0].x.reshape(2000, 60, 50)[split.train].reshape(-1, 50)
    assert scaling and most < x.nbytes
    shift = x.mean(axis=0, dtype=np.float64) if name == "standard" else x.min(axis=0)
    np.testing.assert_allclose(scaling.shift, shift, rtol=1e-6)
