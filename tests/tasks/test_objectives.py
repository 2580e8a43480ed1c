import math

import numpy as np
import pytest
import torch
from sklearn import metrics as reference

from permlab.tasks.metrics import BY_TASK, METRICS
from permlab.tasks.objectives import OBJECTIVES, BinaryClassification, Regression


def classified(seed: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Logits with ties and classes 0 and 1."""
    random = np.random.default_rng(seed)
    y = (random.random(97) < 0.4).astype(np.float32)
    return (scale * np.round(random.standard_normal(97) + y, 1)).astype(np.float32), y


def cross_entropy(logits: np.ndarray, y: np.ndarray) -> float:
    """−Σ y log s + (1 − y) log(1 − s), one term at a time; log s = −log(1 + e^−z)."""
    log_s = -np.logaddexp(0, -logits.astype(np.float64))
    log_rest = -np.logaddexp(0, logits.astype(np.float64))
    return float(np.mean([-(c * a + (1 - c) * b) for a, b, c in zip(log_s, log_rest, y, strict=True)]))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [0.1, 1.0, 60.0])
def test_metrics_of_classes_agree_with_scikit_learn(seed: int, scale: float) -> None:
    """With ties, and with logits so large that a sigmoid would tie them."""
    logits, y = classified(seed, scale)
    measured = BinaryClassification().measure(torch.from_numpy(logits), torch.from_numpy(y))
    assert set(measured) == {"loss", "acc", "auc", "ap"}
    assert measured["loss"] == pytest.approx(cross_entropy(logits, y), rel=1e-6)
    assert measured["acc"] == pytest.approx(reference.accuracy_score(y, logits >= 0), abs=1e-6)
    assert measured["auc"] == pytest.approx(reference.roc_auc_score(y, logits), abs=1e-6)
    assert measured["ap"] == pytest.approx(reference.average_precision_score(y, logits), abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_loss_of_classes_is_the_mean_cross_entropy_with_its_gradient(dtype: torch.dtype) -> None:
    logits, y = classified(0, 1.0)
    z = torch.from_numpy(logits).to(dtype).requires_grad_()
    loss = BinaryClassification().loss(z, torch.from_numpy(y))
    loss.backward()
    assert loss.dtype == dtype and loss.item() == pytest.approx(cross_entropy(logits, y), rel=1e-5)
    slope = (1 / (1 + np.exp(-logits.astype(np.float64))) - y) / len(y)
    np.testing.assert_allclose(z.grad, slope, rtol=1e-4, atol=1e-7)


def test_a_missing_class_gives_nan() -> None:
    measured = BinaryClassification().measure(torch.tensor([0.5, -1.0]), torch.zeros(2))
    assert math.isnan(measured["auc"]) and math.isnan(measured["ap"]) and measured["acc"] == 0.5
    measured = BinaryClassification().measure(torch.tensor([0.5, -1.0]), torch.ones(2))
    assert math.isnan(measured["auc"]) and measured["ap"] == 1.0 and measured["acc"] == 0.5


def test_a_prediction_of_nan_gives_nan() -> None:
    measured = BinaryClassification().measure(torch.tensor([0.5, float("nan")]), torch.tensor([0.0, 1.0]))
    assert len(measured) == 4 and all(math.isnan(value) for value in measured.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_metrics_of_regression_agree_with_scikit_learn(dtype: torch.dtype) -> None:
    y, predictions = np.random.default_rng(0).standard_normal((2, 300)).astype(np.float32)
    z = torch.from_numpy(predictions).to(dtype).requires_grad_()
    measured = Regression().measure(z.detach(), torch.from_numpy(y))
    assert set(measured) == {"loss", "mae"}
    assert measured["mae"] == pytest.approx(reference.mean_absolute_error(y, predictions), rel=1e-6)
    assert measured["loss"] == pytest.approx(reference.mean_squared_error(y, predictions), rel=1e-6)
    loss = Regression().loss(z, torch.from_numpy(y))
    loss.backward()
    assert loss.dtype == dtype and loss.item() == pytest.approx(np.mean((predictions - y) ** 2), rel=1e-5)
    np.testing.assert_allclose(z.grad, 2 * (predictions - y) / 300, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_metric_of_the_table_is_measured_and_better_where_it_says(name: str) -> None:
    objective, y = OBJECTIVES[name](), torch.tensor([0.0, 1.0, 0.0, 1.0])
    good, bad = (objective.measure(z, y) for z in (2 * y - 1, 1 - 2 * y))
    assert objective.headline == BY_TASK[name][0] and set(good) == set(BY_TASK[name])
    assert {metric: good[metric] > bad[metric] for metric in good} == {
        metric: METRICS[metric].higher_is_better for metric in good
    }
