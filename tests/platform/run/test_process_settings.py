"""A run leaves its process as it original it, however it ends."""

import logging
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from permlab.platform.errors import RunError
from permlab.platform.run.predict import FinishedRun
from permlab.platform.run.train import train
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import read_settings

DATA = "dataset=synthetic,graphs=60,max_nodes=8,task=classification"
FAILS = ["train.learning_rate=1e30", "train.optimizer=sgd", "train.epochs=9"]


def state() -> dict[str, Any]:
    return {
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "filling": torch.utils.deterministic.fill_uninitialized_memory,
        "random": torch.get_rng_state().tolist(),
        "gradients": torch.is_grad_enabled(),
        "dtype": torch.get_default_dtype(),
        "filters": list(warnings.filters),
        "level": logging.getLogger("pytorch_lightning").level,
        "cublas": os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
        "signals": [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)],
    }


@pytest.fixture(params=[False, True], ids=["defaults", "set by the user"])
def before(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    original = state()
    if request.param:
        torch.set_num_threads(2)
        torch.use_deterministic_algorithms(True, warn_only=True)
        logging.getLogger("pytorch_lightning").setLevel(logging.INFO)
        torch.manual_seed(7)
    yield state()
    torch.set_num_threads(original["threads"])
    torch.use_deterministic_algorithms(original["deterministic"], warn_only=original["warn only"])
    logging.getLogger("pytorch_lightning").setLevel(original["level"])


def settings(tmp_path: Path, *words: str) -> RunSettings:
    fixed = [DATA, "train.epochs=2", "track=false", "threads=1", "model.dropout=0.1", f"runs={tmp_path / 'runs'}"]
    return read_settings(RunSettings, [*fixed, *words])


@pytest.mark.parametrize("words", [[], ["train.engine=plain"], ["train.precision=64"], ["train.fast_dev_run=true"]])
def test_after_a_run(tmp_path: Path, before: dict[str, Any], words: list[str]) -> None:
    train(settings(tmp_path, *words))
    assert state() == before


def test_after_a_run_that_failed(tmp_path: Path, before: dict[str, Any]) -> None:
    with pytest.raises(RunError, match="loss is"):
        train(settings(tmp_path, *FAILS))
    assert state() == before


def test_a_run_gets_its_threads_and_determinism(tmp_path: Path) -> None:
    import pytorch_lightning as pl

    seen = []

    class Look(pl.Callback):
        def on_train_start(self, *args: object) -> None:
            seen.append((torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()))

    train(settings(tmp_path, "threads=2"), callbacks=[Look()])
    assert seen == [(2, True)]


def test_after_predicting(tmp_path: Path, before: dict[str, Any]) -> None:
    train(settings(tmp_path))
    (folder,) = (tmp_path / "runs" / "cells").iterdir()
    FinishedRun.load(folder).predict(DATA.removeprefix("dataset="))
    assert state() == before
