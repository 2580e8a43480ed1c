"""The bar of a run on a terminal."""

from pathlib import Path

import pytest

from permlab.platform.display.console import err
from permlab.platform.display.epoch_bar import EpochBar
from permlab.platform.run.training import Training
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import read_settings

DATA = "dataset=synthetic,graphs=60,max_nodes=8,task=classification"


def test_it_ends_full_with_the_loss_of_the_last_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(err), "shows_bars", True)
    words = [DATA, "train.epochs=2", "train.engine=plain", "model.dropout=0.2", f"runs={tmp_path}"]
    bar = EpochBar("sum", 2)
    result = Training.prepare(read_settings(RunSettings, words)).run(callbacks=[bar])
    (task,) = bar.progress.tasks
    assert (task.completed, task.total, task.percentage) == (2, 2, 100)
    assert task.fields["note"].startswith(f"loss {result.history[-1]['train/running_loss']:.4f}")


def test_it_shows_the_training_graphs_if_nothing_else_is_measured(tmp_path: Path) -> None:
    words = [DATA, "data.train_only=true", "train.epochs=1", "train.engine=plain", f"runs={tmp_path}"]
    bar = EpochBar("sum", 1)
    result = Training.prepare(read_settings(RunSettings, words)).run(callbacks=[bar])
    assert bar.measured == f", train auc {result.metrics['train']['auc']:.4f}"
