"""Which graphs a run trains on and is tested on; constant labels and the weights of positive ones."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from permlab.datasets.errors import DataUsageError
from permlab.datasets.store import GraphStore
from permlab.platform.errors import ConfigError
from permlab.platform.run.cell import run_cell
from permlab.platform.run.predict import FinishedRun
from permlab.platform.run.split import positive_weights, split_of
from permlab.platform.run.training import Training
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import read_settings
from tests.datasets.stores import use_rings

DATA = "dataset=synthetic,graphs=60,max_nodes=6,task=classification"
QUICK = ("d=2", "train.epochs=2", "track=false", "train.batch_size=8")


def read(*words: str) -> RunSettings:
    return read_settings(RunSettings, [DATA, *QUICK, *words])


def opened(settings: RunSettings) -> GraphStore:
    return GraphStore.open(settings.dataset, build_missing=True)


def test_the_seed_draws_the_validation_part_of_a_stratified_fold_and_not_the_fold() -> None:
    first, second = (read("data.splits=stratified:5", "data.fold=2", "data.validation=9", f"seed={i}") for i in (0, 1))
    store = opened(first)
    ours, theirs = split_of(store, first), split_of(store, second)
    assert ours.holdout.tolist() == theirs.holdout.tolist() and len(ours.holdout) == 12
    assert ours.validation.tolist() != theirs.validation.tolist() and len(ours.validation) == 9
    assert abs(store.y[ours.holdout].mean() - store.y.mean()) < 0.1


def test_a_scaffold_split_of_molecules_and_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    use_rings(monkeypatch)
    settings = read("dataset=rings", "data.splits=scaffold", "data.holdout=2", "data.validation=4")
    assert [len(part) for part in split_of(opened(settings), settings)] == [6, 4, 2]
    with pytest.raises(DataUsageError, match="synthetic.* has no scaffolds"):
        Training.prepare(read("data.splits=scaffold"))


@pytest.mark.parametrize(("value", "says"), [(1.0, "is 1 for all"), (np.nan, "is missing for all")])
def test_a_label_that_is_constant_is_refused(monkeypatch: pytest.MonkeyPatch, value: float, says: str) -> None:
    monkeypatch.setattr(GraphStore, "y", property(lambda store: np.full(len(store), value, dtype=np.float32)))
    with pytest.raises(ConfigError, match=f"the label .* of synthetic.* {says} 48 training graphs: there is nothing"):
        Training.prepare(read())


@given(st.lists(st.sampled_from([0.0, 1.0, np.nan]), min_size=1))
def test_balanced_weights_give_both_classes_the_same_weight(labels: list[float]) -> None:
    y = np.array(labels)
    (weight,) = positive_weights(y)
    positive, negative = (y == 1).sum(), (y == 0).sum()
    assert weight * positive == pytest.approx(negative) if positive and negative else weight == 1


def test_a_balanced_run_weighs_its_training_labels_and_can_be_read_back(tmp_path: Path) -> None:
    settings = read("train.pos_weight=balanced", f"runs={tmp_path}")
    training = Training.prepare(settings)
    y = torch.from_numpy(training.store.y[training.data.split.train])
    weight = float((y == 0).sum() / (y == 1).sum())
    logits = torch.linspace(-2, 2, len(y))
    expected = torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor(weight))(logits, y)
    assert weight != 1 and training.task.objective.loss(logits, y) == pytest.approx(float(expected))
    result = run_cell(settings)
    assert result["engine"] == {"name": "plain", "reason": "train.pos_weight=balanced"}
    (folder,) = (tmp_path / "cells").iterdir()
    read_back = FinishedRun.load(folder).objective
    assert float(read_back.loss(logits, y)) == pytest.approx(float(expected))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["dataset=synthetic,graphs=60"], "train.pos_weight goes with binary and multilabel, .* is regression"),
        (["objective.kind=multiclass"], "train.pos_weight goes with binary and multilabel, .* is multiclass"),
        (
            ["train.monitor=mae", "train.patience=2", "data.validation=9"],
            "train.monitor=mae: .* is measured by auc, acc",
        ),
    ],
)
def test_what_does_not_fit_the_objective_is_one_line(words: list[str], says: str) -> None:
    with pytest.raises(Exception, match=says) as caught:
        Training.prepare(read("train.pos_weight=2", *words))
    assert "\n" not in str(caught.value)


def test_the_monitored_metric_chooses_the_epoch_and_the_holdout_is_measured_once(tmp_path: Path) -> None:
    words = ("data.validation=15", "data.test=true", "train.patience=9", "train.epochs=9", "train.eval_every=1")
    settings = read(*words, "train.monitor=acc", "train.learning_rate=1e-2", f"runs={tmp_path}")
    result = Training.prepare(settings).run()
    by_epoch = [entry["validation/acc"] for entry in result.history]
    assert result.best_epoch == 1 + int(np.argmax(by_epoch))
    assert result.metrics["validation"]["acc"] == max(by_epoch)
    assert set(result.metrics) == {"train", "validation", "holdout", "holdout_perm"}
    assert not any(name.startswith("holdout") for entry in result.history for name in entry)
    assert len(result.outputs["holdout"]) == 12


def test_a_validation_part_of_one_class_cannot_choose_the_epoch_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = read("data.validation=15", "train.patience=1", "train.eval_every=1", f"runs={tmp_path}")
    part = split_of(opened(settings), settings).validation
    labels = np.arange(60) % 2
    labels[part] = 1
    monkeypatch.setattr(GraphStore, "y", property(lambda store: labels.astype(np.float32)))
    result = Training.prepare(settings).run()
    assert np.isnan(result.metrics["validation"]["auc"]) and result.best_epoch is None
    assert "the validation metric was NaN" in " ".join(capsys.readouterr().err.split())
