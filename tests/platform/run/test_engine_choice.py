"""Which engine trains, and why: whatever would notice the fast engine gets the plain path."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor

from permlab.platform.display.epoch_bar import EpochBar
from permlab.platform.errors import ConfigError
from permlab.platform.run.training import Training
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import read_settings
from permlab.readouts.kernels import GaussianKernels
from permlab.readouts.pooling import Sum
from permlab.tasks.objectives import BinaryClassification

DATA = "dataset=synthetic,graphs=60,max_nodes=8,task=classification"
HAS_ENGINE = importlib.util.find_spec("numba") is not None
needs_engine = pytest.mark.skipif(not HAS_ENGINE, reason="numba is not installed")


class Safe(pl.Callback):
    engine_safe = True


class Heir(Safe):
    """Its parent is safe; what it adds may not be."""


class Stranger(pl.Callback):
    pass


@pytest.fixture
def cell(tmp_path: Path) -> Callable[..., Training]:
    def prepare(*words: str) -> Training:
        return Training.prepare(read_settings(RunSettings, [DATA, "train.epochs=1", f"runs={tmp_path}", *words]))

    return prepare


@pytest.mark.parametrize(
    ("words", "callbacks", "reason"),
    [
        (["train.engine=plain"], [], "train.engine=plain"),
        (["train.precision=64"], [], "train.precision=64"),
        (["train.gradient_clip=1"], [], "train.gradient_clip=1"),
        (["train.scheduler=plateau"], [], "train.scheduler=plateau"),
        (["train.fast_dev_run=true"], [], "train.fast_dev_run"),
        (["train.overfit_batches=1"], [], "train.overfit_batches=1"),
        (["train.profile=true"], [], "train.profile"),
        ([], [Safe(), Stranger()], "Stranger"),
        ([], [Heir()], "Heir"),
        ([], [pl.callbacks.EarlyStopping("holdout/auc", patience=9)], "EarlyStopping"),
    ],
)
def test_whatever_would_notice_gets_the_plain_path(cell, words: list[str], callbacks: list, reason: str) -> None:
    result = cell(*words).run(callbacks=callbacks)
    assert result.engine["name"] == "plain" and reason in result.engine["reason"]
    assert result.numerics[-1]["engine"] == "plain" and result.numerics[-1]["numba"] is None


def test_a_device_that_is_not_the_cpu_gets_the_plain_path(cell, monkeypatch: pytest.MonkeyPatch) -> None:
    from permlab.platform.run.engine_choice import choose_engine

    training = cell()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    engine = choose_engine(training.settings, training.task, training.data)
    assert engine.name == "plain" and "cuda" in engine.reason and engine.task is training.task


@needs_engine
def test_auto_takes_the_engine_if_nothing_prevents_it(cell) -> None:
    result = cell().run(callbacks=[Safe(), EpochBar("sum", 1)])
    assert result.engine == {"name": "fast", "reason": ""}
    assert result.numerics[-1]["engine"] == "fast" and result.numerics[-1]["numba"]


@needs_engine
def test_the_engine_leaves_model_and_data_as_it_found_them(cell) -> None:
    training = cell()
    loader = training.data.train_loader
    training.run()
    assert training.data.train_loader is loader
    assert all(
        weight.untyped_storage().resizable() for weight in training.task.model.parameters()
    )  # they own their memory
    assert training.task.measured and training.task.outputs


def test_without_numba_everything_runs_plain(cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = cell("train.engine=plain").run()
    for name in [name for name in sys.modules if name.startswith("permlab.tasks.engine")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numba", None)  # importing it raises ModuleNotFoundError
    result = cell(f"runs={tmp_path / 'other'}").run()
    assert result.engine["name"] == "plain" and "numba is not installed" in result.engine["reason"]
    assert result.metrics == plain.metrics
    with pytest.raises(ConfigError, match="train.engine=fast: numba is not installed.*choose auto or plain"):
        cell("train.engine=fast", "seed=1").run()


@needs_engine
def test_a_hook_of_the_users_is_called(cell) -> None:
    training, calls = cell(), []
    training.task.model.readout.register_forward_hook(lambda *args: calls.append(1))
    result = training.run()
    assert result.engine["name"] == "plain" and "hook" in result.engine["reason"] and calls


class DoubleSum(Sum):
    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        return 2 * super().pool(x, ptr)


class SquaredKernels(GaussianKernels):
    def features(self, x: Tensor) -> Tensor:
        return super().features(x).square()


class AbsoluteError(BinaryClassification):
    def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
        return (predictions - y).abs().mean()


def own_readout(kind: type) -> Callable[[Training], None]:
    def change(training: Training) -> None:
        training.task.model.readout.__class__ = kind

    return change


def own_loss(training: Training) -> None:
    training.task.objective = AbsoluteError()


@pytest.mark.parametrize(
    ("words", "change"),
    [
        (["method=sum"], own_readout(DoubleSum)),
        (["method=kernels"], own_readout(SquaredKernels)),
        (["method=sum"], own_loss),
    ],
    ids=["a readout that overrides pool", "kernels that override features", "a loss"],
)
def test_what_the_user_overrides_is_what_is_trained(cell, tmp_path: Path, words: list[str], change) -> None:
    """auto gives the same bits as plain, and other bits than without the change."""

    def weights(number: int, *more: str, changed: bool = True) -> Tensor:
        training = cell(*words, *more, f"runs={tmp_path / str(number)}")
        if changed:
            change(training)
        result = training.run()
        assert result.engine["name"] == "plain"
        return torch.cat([weight.flatten().float() for weight in result.weights.values()])

    auto, plain = weights(1), weights(2, "train.engine=plain")
    assert torch.equal(auto, plain)
    assert not torch.equal(plain, weights(3, "train.engine=plain", changed=False))


@needs_engine
def test_fast_where_the_engine_refuses_is_an_error_with_its_reason(cell) -> None:
    training = cell("train.engine=fast")
    training.task.model.readout.register_forward_hook(lambda *args: None)
    with pytest.raises(ConfigError, match="train.engine=fast: .*hook.*; choose auto or plain"):
        training.run()


@pytest.mark.parametrize("word", ["train.scheduler=cosine", "train.precision=64", "train.profile=true"])
def test_fast_with_a_setting_that_it_does_not_support_is_one_line(permlab, tmp_path, monkeypatch, word: str) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = permlab("train", DATA, "train.engine=fast", word)
    name = word.partition("=")[0]
    assert (code, out, err.count("\n")) == (2, "", 1) and "train.engine=fast" in err and name in err


@pytest.mark.parametrize("word", ["train.engine=plain", "train.scheduler=cosine", "train.engine=auto"])
def test_train_says_which_engine_was_used(permlab, tmp_path, monkeypatch, word: str) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = permlab("train", DATA, "train.epochs=1", "track=false", word)
    assert code == 0, err
    (last,) = [line for line in out.splitlines() if line.startswith("engine:")]
    if word == "train.engine=auto" and HAS_ENGINE:
        assert last == "engine: fast"
    else:
        assert last.startswith("engine: plain (") and (word in last or not HAS_ENGINE)
