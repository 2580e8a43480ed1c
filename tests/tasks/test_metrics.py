import math

import numpy as np
import pytest
import torch
from sklearn import metrics as reference

from permlab.tasks.metrics import classification_metrics, regression_metrics


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [0.1, 1.0, 60.0])
def test_classification_equals_scikit_learn(seed: int, scale: float) -> None:
    """With ties, and with logits so large that a sigmoid would tie them."""
    random = np.random.default_rng(seed)
    y = (random.random(97) < 0.4).astype(np.float32)
    logits = (scale * np.round(random.standard_normal(97) + y, 1)).astype(np.float32)
    found = classification_metrics(torch.from_numpy(logits), torch.from_numpy(y))
    assert found["acc"] == pytest.approx(reference.accuracy_score(y, logits >= 0), abs=1e-6)
    assert found["loss"] == pytest.approx(
        np.mean(np.logaddexp(0, np.where(y == 1, -1, 1) * logits.astype(np.float64))), rel=1e-6
    )
    assert found["auc"] == pytest.approx(reference.roc_auc_score(y, logits), abs=1e-6)
    assert found["ap"] == pytest.approx(reference.average_precision_score(y, logits), abs=1e-6)


def test_a_missing_class_is_no_number() -> None:
    found = classification_metrics(torch.tensor([0.5, -1.0]), torch.zeros(2))
    assert math.isnan(found["auc"]) and math.isnan(found["ap"]) and found["acc"] == 0.5


def test_regression_equals_scikit_learn() -> None:
    random = np.random.default_rng(0)
    y, predictions = random.standard_normal((2, 300)).astype(np.float32)
    found = regression_metrics(torch.from_numpy(predictions), torch.from_numpy(y))
    assert found["mae"] == pytest.approx(reference.mean_absolute_error(y, predictions), rel=1e-6)
    assert found["loss"] == pytest.approx(reference.mean_squared_error(y, predictions), rel=1e-6)
