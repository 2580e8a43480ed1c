import subprocess
import sys

import pytest

from permlab.tasks import metrics
from permlab.tasks.metrics import METRICS, Metric, headline_of, higher_is_better, in_order, metric_label, metrics_of


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_remembered", {})


def test_the_metric_of_one_target_is_read_as_that_of_all() -> None:
    assert (metric_label("mae_alpha"), higher_is_better("mae_alpha")) == ("MAE alpha", False)
    assert (metric_label("auc_liver_x"), higher_is_better("auc_liver_x")) == ("AUC liver_x", True)
    assert (metric_label("r2_score"), higher_is_better("r2_score")) == ("r2_score", False)
    assert not higher_is_better(None)


def test_a_metric_that_is_remembered_is_known_and_the_table_stays() -> None:
    metrics.remember("r2_score", Metric("R2Score", True))
    metrics.remember("mae", Metric("my MAE", True))
    assert (metric_label("r2_score"), higher_is_better("r2_score")) == ("R2Score", True)
    assert (metric_label("mae"), higher_is_better("mae")) == ("MAE", False)


@pytest.mark.parametrize(
    ("names", "headline"),
    [
        (["loss", "acc", "auc", "ap"], "auc"),
        (["loss", "acc", "auc", "f1", "matthews_corr_coef"], "acc"),
        (["loss", "mae", "mae_a", "mae_b"], "mae"),
        (["loss", "acc"], "acc"),
        (["loss", "mine"], "mine"),
        (["loss"], "loss"),
        ([], ""),
    ],
)
def test_the_headline_of_what_was_measured(names: list[str], headline: str) -> None:
    assert headline_of(names) == headline


def test_metrics_come_in_one_order() -> None:
    assert in_order(["loss", "mine", "mae_b", "mae", "acc"]) == ["acc", "mae", "mae_b", "mine", "loss"]
    assert list(metrics_of("regression", ("y",))) == ["mae", "loss"]
    assert list(metrics_of("regression", ("a", "b"))) == ["mae", "mae_a", "mae_b", "loss"]
    assert in_order(METRICS) == list(METRICS)


@pytest.mark.parametrize(
    ("name", "snake"),
    [("MatthewsCorrCoef", "matthews_corr_coef"), ("R2Score", "r2_score"), ("AUROC", "auroc"), ("F1Score", "f1_score")],
)
def test_a_class_name_as_the_name_of_a_metric(name: str, snake: str) -> None:
    assert metrics.snake_case(name) == snake


def test_the_table_is_read_without_torch() -> None:
    code = "import sys, permlab.tasks.metrics; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
