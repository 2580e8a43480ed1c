import math
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics
from scipy import stats
from sklearn import metrics as reference
from torch import Tensor

from permlab.tasks import metrics as table
from permlab.tasks.metrics import Metric, higher_is_better, metric_label
from permlab.tasks.objectives import (
    BinaryClassification,
    MultiClass,
    MultiLabel,
    Objective,
    ObjectiveError,
    Regression,
    add_metrics,
    check_metrics,
    choose_objective,
    metric_by_name,
)

NAN = float("nan")


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_remembered", {})


def value(objective: Objective, name: str, predictions: Tensor, y: Tensor, **options: Any) -> float:
    extended = add_metrics(objective, {"it": metric_by_name(name, objective, **options)})
    check_metrics(extended)
    return extended.measure(predictions, y)["it"]


def test_two_classes() -> None:
    z, y = BinaryClassification().example()
    computed = value(BinaryClassification(), "MatthewsCorrCoef", z, y)
    assert computed == pytest.approx(reference.matthews_corrcoef(y, z >= 0), rel=1e-6)
    gaps = y.clone()
    gaps[::3] = NAN
    kept = ~gaps.isnan()
    computed = value(BinaryClassification(), "F1Score", z, gaps)
    assert computed == pytest.approx(reference.f1_score(y[kept], z[kept] >= 0), rel=1e-6)


def test_a_metric_gets_probabilities() -> None:
    z, y = BinaryClassification().example()
    computed = value(BinaryClassification(), "CalibrationError", z, y, n_bins=1)
    assert computed == pytest.approx(float(abs(z.sigmoid().mean() - y.mean())), rel=1e-6)


def test_several_classes() -> None:
    objective = MultiClass(4)
    z, y = objective.example()
    y[5] = NAN
    kept = ~y.isnan()
    computed = value(objective, "CohenKappa", z, y)
    assert computed == pytest.approx(reference.cohen_kappa_score(y[kept], z.argmax(1)[kept]), rel=1e-5)
    computed = value(objective, "F1Score", z, y, average="weighted")
    assert computed == pytest.approx(reference.f1_score(y[kept], z.argmax(1)[kept], average="weighted"), rel=1e-5)


def test_several_labels_leave_missing_ones_out() -> None:
    objective = MultiLabel(("a", "b", "c"))
    z, y = objective.example()
    rows = ~y[:, 0].isnan()
    computed = value(objective, "F1Score", z, y, average="macro")
    assert computed == pytest.approx(reference.f1_score(y[rows], z[rows] >= 0, average="macro"), rel=1e-6)


def test_numbers() -> None:
    z, y = Regression().example()
    assert value(Regression(), "R2Score", z, y) == pytest.approx(reference.r2_score(y, z), rel=1e-9)
    assert value(Regression(), "SpearmanCorrCoef", z, y) == pytest.approx(stats.spearmanr(y, z).statistic, rel=1e-6)
    rounded = value(Regression(), "MeanSquaredError", z + 1e6, y + 1e6 + 1e-6)
    assert rounded == pytest.approx(float((z - y - 1e-6).square().mean()), rel=1e-6)  # double precision


def test_several_targets_use_whole_rows_and_a_metric_of_each_is_averaged() -> None:
    objective = Regression(("a", "b"))
    z, y = objective.example()
    y[::5, 0] = NAN
    rows = ~y.isnan().any(dim=1)
    each = [stats.spearmanr(y[rows, t], z[rows, t]).statistic for t in range(2)]
    assert value(objective, "SpearmanCorrCoef", z, y) == pytest.approx(np.mean(each), rel=1e-6)
    assert value(objective, "R2Score", z, y) == pytest.approx(reference.r2_score(y[rows], z[rows]), rel=1e-9)


def test_the_metrics_are_chosen_with_the_objective_and_named_after_their_class() -> None:
    metrics = {"MatthewsCorrCoef": None, "F1Score": {"average": "macro"}, "mine": Fragile()}
    objective = choose_objective("classification", ("y",), 3, metrics=metrics)
    assert list(objective.metrics) == ["acc", "auc", "f1", "matthews_corr_coef", "f1_score", "mine", "loss"]
    assert objective.metrics["matthews_corr_coef"] == Metric("MatthewsCorrCoef", True)
    assert objective.metrics["mine"] == Metric("mine", False)
    assert higher_is_better("matthews_corr_coef") and metric_label("f1_score") == "F1Score"
    assert objective.headline == "acc" and type(objective) is MultiClass
    z, y = objective.example()
    assert set(objective.measure(z, y)) == set(objective.metrics)


def test_the_objective_itself_stays_as_it_was() -> None:
    plain = Regression()
    twice = add_metrics(add_metrics(plain, {"a": torchmetrics.R2Score()}), {"b": torchmetrics.MeanSquaredError()})
    assert list(plain.metrics) == ["mae", "loss"] and list(twice.metrics) == ["mae", "a", "b", "loss"]
    z, y = plain.example()
    first = twice.measure(z, y)
    assert twice.measure(z, y) == first and first["loss"] == pytest.approx(first["b"])  # no state is left


class Fragile(torchmetrics.Metric):
    """Fails where there are fewer than ten graphs."""

    higher_is_better = False

    def update(self, predictions: Tensor, target: Tensor) -> None:
        if len(target) < 10:
            raise RuntimeError("too few")

    def compute(self) -> Tensor:
        return torch.tensor(1.0)


class Broken(Fragile):
    def update(self, predictions: Tensor, target: Tensor) -> None:
        raise RuntimeError("broken\nfor good")


class Pair(Fragile):
    def compute(self) -> Tensor:
        return torch.ones(2)


class Undecided(Fragile):
    higher_is_better = None


class Measuring(Regression):
    def measure(self, predictions: Tensor, y: Tensor) -> dict[str, float]:
        return {"loss": 0.0, "mae": 1.0}


def test_a_metric_that_is_not_defined_on_some_data_is_nan() -> None:
    objective = add_metrics(Regression(), {"fragile": Fragile()})
    check_metrics(objective)
    z, y = objective.example()
    assert objective.measure(z, y)["fragile"] == 1 and math.isnan(objective.measure(z[:9], y[:9])["fragile"])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: check_metrics(add_metrics(Regression(), {"it": Broken()})), "the metric it.*broken for good"),
        (lambda: check_metrics(add_metrics(Regression(), {"it": Pair()})), "it gives 2 numbers instead of one"),
        (lambda: add_metrics(Regression(), {"it": Undecided()}), "Undecided does not say which way is better"),
        (lambda: add_metrics(Regression(), {"it": Fragile}), "give an object of torchmetrics.Metric"),
        (lambda: add_metrics(Regression(), {"it": "R2Score"}), "give an object of torchmetrics.Metric"),
        (lambda: add_metrics(Regression(), {"mae": Fragile()}), "'mae' cannot name a metric"),
        (lambda: add_metrics(Regression(), {"a/b": Fragile()}), "'a/b' cannot name a metric"),
        (lambda: add_metrics(Measuring(), {"it": Fragile()}), "Measuring overrides measure"),
        (lambda: metric_by_name("MathewsCorCoef", Regression()), "did you mean MatthewsCorrCoef"),
        (lambda: metric_by_name("BLEUScore", Regression()), "no metric BLEUScore for classes or numbers"),
        (lambda: metric_by_name("F1Score", Regression()), "F1Score does not fit Regression: .*task"),
        (lambda: metric_by_name("CalibrationError", MultiLabel(("a", "b"))), "does not fit MultiLabel"),
        (lambda: metric_by_name("R2Score", Regression(), colour=3), "does not fit Regression.*colour"),
        (lambda: choose_objective("regression", ("y",), 0, metrics={"PearsonCorrCoef": None}), "which way is better"),
    ],
)
def test_a_wrong_call_is_one_line(call: Any, says: str) -> None:
    with pytest.raises(ObjectiveError, match=says) as error:
        call()
    assert "\n" not in str(error.value)
