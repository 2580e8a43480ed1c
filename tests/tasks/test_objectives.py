import math

import numpy as np
import pytest
import torch
from sklearn import metrics as reference
from torch import Tensor
from torch.nn import functional
from torchmetrics.functional.classification import binary_accuracy, binary_auroc, binary_average_precision
from torchmetrics.functional.regression import mean_absolute_error

from permlab.tasks.metrics import METRICS, metrics_of
from permlab.tasks.objectives import (
    BinaryClassification,
    MultiClass,
    MultiLabel,
    Objective,
    ObjectiveError,
    Regression,
    choose_objective,
)

NAN = float("nan")
OBJECTIVES: list[Objective] = [
    BinaryClassification(),
    MultiClass(4),
    MultiLabel(("a", "b", "c")),
    Regression(),
    Regression(("a", "b c")),
]


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


class PaperClassification:
    """The formulas of the paper's experiment, in the calls that its stored numbers come from."""

    def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(predictions, y.to(predictions.dtype))

    def measure(self, predictions: Tensor, y: Tensor) -> dict[str, float]:
        classes = y.long()
        ranks = torch.unique(predictions, return_inverse=True)[1].double() / len(predictions)
        return {
            "loss": self.loss(predictions.double(), y).item(),
            "acc": binary_accuracy((predictions >= 0).long(), classes, validate_args=False).item(),
            "auc": binary_auroc(ranks, classes, validate_args=False).item(),
            "ap": binary_average_precision(ranks, classes, validate_args=False).item(),
        }


class PaperRegression:
    def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
        return functional.mse_loss(predictions, y.to(predictions.dtype))

    def measure(self, predictions: Tensor, y: Tensor) -> dict[str, float]:
        predictions, y = predictions.double(), y.double()
        return {"loss": self.loss(predictions, y).item(), "mae": mean_absolute_error(predictions, y).item()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("graphs", [2, 13, 97, 128, 1001])
@pytest.mark.parametrize(
    ("objective", "paper"), [(BinaryClassification(), PaperClassification()), (Regression(), PaperRegression())]
)
def test_the_papers_objectives_have_the_bits_of_its_formulas(
    objective: Objective, paper: Objective, graphs: int, dtype: torch.dtype
) -> None:
    """Loss, gradient and metrics, although labels may be missing now."""
    random = np.random.default_rng(graphs)
    y = torch.from_numpy((np.arange(graphs) % 2 if objective.headline == "auc" else random.random(graphs)).astype("f4"))
    z = torch.from_numpy(3 * random.standard_normal(graphs)).to(dtype)
    ours, theirs = z.clone().requires_grad_(), z.clone().requires_grad_()
    for leaf, judge in ((ours, objective), (theirs, paper)):
        (2 * judge.loss(leaf, y)).backward()
    assert torch.equal(objective.loss(z, y), paper.loss(z, y)) and objective.loss(z, y).dtype == dtype
    assert torch.equal(ours.grad, theirs.grad)
    assert objective.measure(z.float(), y) == paper.measure(z.float(), y)
    assert list(objective.measure(z, y)) == list(paper.measure(z, y))


def several_classes(seed: int, classes: int = 4, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Logits [G, C] with ties, and classes."""
    random = np.random.default_rng(seed)
    y = random.integers(0, classes, 90)
    logits = scale * np.round(random.standard_normal((90, classes)) + np.eye(classes)[y], 1)
    return logits.astype(np.float32), y


@pytest.mark.parametrize("seed", range(5))
def test_several_classes_are_measured_as_scikit_learn_does(seed: int) -> None:
    logits, y = several_classes(seed)
    p = np.exp(logits.astype(np.float64))
    p /= p.sum(axis=1, keepdims=True)
    values = MultiClass(4).measure(torch.from_numpy(logits), torch.from_numpy(y).float())
    assert list(values) == ["loss", "acc", "auc", "f1"]
    assert values["loss"] == pytest.approx(reference.log_loss(y, p), rel=1e-6)
    assert values["acc"] == pytest.approx(reference.accuracy_score(y, logits.argmax(1)))
    each = [reference.roc_auc_score(y == c, np.round(p[:, c], 12)) for c in range(4)]
    assert values["auc"] == pytest.approx(np.mean(each), abs=1e-6)
    assert values["auc"] == pytest.approx(reference.roc_auc_score(y, p, multi_class="ovr", average="macro"), abs=2e-3)
    assert values["f1"] == pytest.approx(reference.f1_score(y, logits.argmax(1), average="macro"), abs=1e-6)


def test_classes_that_nobody_has_are_left_out_of_the_means() -> None:
    logits, y = several_classes(0)
    logits[:, 3], y[y == 3] = -9, 2
    values = MultiClass(4).measure(torch.from_numpy(logits), torch.from_numpy(y))
    p = np.exp(logits.astype(np.float64)) / np.exp(logits.astype(np.float64)).sum(axis=1, keepdims=True)
    each = [reference.roc_auc_score(y == c, np.round(p[:, c], 12)) for c in range(3)]
    assert values["auc"] == pytest.approx(np.mean(each), abs=1e-6)
    assert values["f1"] == pytest.approx(reference.f1_score(y, logits.argmax(1), average="macro"), abs=1e-6)
    alone = MultiClass(4).measure(torch.from_numpy(logits), torch.full((90,), 2))
    assert math.isnan(alone["auc"]) and alone["acc"] == np.mean(logits.argmax(1) == 2)


def test_logits_so_large_that_a_softmax_would_tie_them_keep_their_ranks() -> None:
    logits, y = torch.tensor([[90.0, 0], [80, 0], [70, 0], [0, 60]]), torch.tensor([0, 0, 1, 1])
    assert MultiClass(2).measure(logits, y)["auc"] == 1.0


def test_two_classes_by_two_logits_are_as_by_their_difference() -> None:
    logits, y = several_classes(1, classes=2)
    z, classes = torch.from_numpy(logits).double(), torch.from_numpy(y)
    two, one = MultiClass(2).measure(z, classes), BinaryClassification().measure(z[:, 1] - z[:, 0], classes)
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-6) and two["auc"] == pytest.approx(one["auc"], abs=1e-6)


def several_labels(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits [G, 4] and labels with gaps; the last label is always 1, and so in no mean but the accuracy."""
    random = np.random.default_rng(seed)
    y = (random.random((80, 4)) < 0.4).astype(np.float32)
    logits = np.round(random.standard_normal((80, 4)) + y, 1).astype(np.float32)
    y[:, 3] = 1
    y[random.random((80, 4)) < 0.3] = NAN
    return logits, y


@pytest.mark.parametrize("seed", range(5))
def test_several_labels_with_gaps_are_measured_label_by_label(seed: int) -> None:
    logits, y = several_labels(seed)
    present = ~np.isnan(y)
    auc, ap = [], []
    for t in range(3):
        rows = present[:, t]
        auc.append(reference.roc_auc_score(y[rows, t], logits[rows, t]))
        ap.append(reference.average_precision_score(y[rows, t], logits[rows, t]))
    objective = MultiLabel(("a", "b", "c", "d"))
    values = objective.measure(torch.from_numpy(logits), torch.from_numpy(y))
    assert values["auc"] == pytest.approx(np.mean(auc), abs=1e-6)
    assert values["ap"] == pytest.approx(np.mean(ap), abs=1e-6)
    assert values["acc"] == pytest.approx(np.mean(((logits >= 0) == y)[present]))
    assert values["loss"] == pytest.approx(cross_entropy(logits[present], y[present]), rel=1e-6)
    nothing = objective.measure(torch.from_numpy(logits), torch.full((80, 4), NAN))
    assert nothing.pop("loss") == 0 and all(math.isnan(value) for value in nothing.values())


def test_the_mae_of_several_targets_is_the_mean_of_theirs() -> None:
    random = np.random.default_rng(0)
    y, z = (random.standard_normal((2, 50, 3)) * [1, 10, 100]).astype(np.float32)
    y[random.random((50, 3)) < 0.3] = NAN
    values = Regression(("mu", "a/b", "a b")).measure(torch.from_numpy(z), torch.from_numpy(y))
    present = ~np.isnan(y)
    each = [np.mean([abs(z[g, t] - y[g, t]) for g in range(50) if present[g, t]]) for t in range(3)]
    assert list(values) == ["loss", "mae", "mae_mu", "mae_a_b_1", "mae_a_b_2"]
    assert [values["mae_mu"], values["mae_a_b_1"], values["mae_a_b_2"]] == pytest.approx(each, rel=1e-6)
    assert values["mae"] == pytest.approx(np.mean(each), rel=1e-6)
    assert values["loss"] == pytest.approx(np.mean((z - y)[present] ** 2), rel=1e-5)


def example(objective: Objective) -> tuple[Tensor, Tensor]:
    """Predictions, and targets without a gap."""
    predictions, y = objective.example()
    return predictions, y.nan_to_num(1.0)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda each: f"{type(each).__name__}-{each.outputs}")
class TestContract:
    def test_all_metrics_are_measured_and_better_where_they_say(self, objective: Objective) -> None:
        _, y = example(objective)
        if isinstance(objective, MultiClass):
            right, wrong = functional.one_hot(y.long(), 4) * 4.0, functional.one_hot((y.long() + 1) % 4, 4) * 4.0
        else:
            right, wrong = 2 * y - 1 if isinstance(objective, MultiLabel | BinaryClassification) else y, 9 - 2 * y
        good, bad = objective.measure(right, y), objective.measure(wrong, y)
        assert set(good) == set(objective.metrics) and next(iter(good)) == list(objective.metrics)[-1] == "loss"
        assert objective.headline == next(iter(objective.metrics))
        for name, metric in objective.metrics.items():
            assert (good[name] > bad[name]) == metric.higher_is_better, name
            assert metric == METRICS.get(name, metric)

    def test_a_label_that_is_missing_changes_neither_loss_nor_metrics_and_gets_no_gradient(
        self, objective: Objective
    ) -> None:
        predictions, y = example(objective)
        rows = torch.arange(len(y)) % 3 != 0
        gaps = y.clone()
        gaps[~rows] = NAN
        z = predictions.clone().requires_grad_()
        objective.loss(z, gaps).backward()
        kept = predictions[rows].clone().requires_grad_()
        objective.loss(kept, y[rows]).backward()
        torch.testing.assert_close(z.grad[rows], kept.grad)
        assert not z.grad[~rows].any() and kept.grad.all()
        assert objective.measure(predictions, gaps) == pytest.approx(objective.measure(predictions[rows], y[rows]))

    def test_without_any_label_there_is_no_loss_and_no_gradient(self, objective: Objective) -> None:
        predictions, y = example(objective)
        z = predictions.clone().requires_grad_()
        loss = objective.loss(z, torch.full_like(y, NAN))
        loss.backward()
        assert loss.item() == 0 and not z.grad.any()

    def test_predictions_that_are_nan_give_nan(self, objective: Objective) -> None:
        predictions, y = example(objective)
        predictions[3] = NAN
        values = objective.measure(predictions, y)
        assert set(values) == set(objective.metrics) and all(math.isnan(value) for value in values.values())

    def test_targets_of_another_shape_are_refused(self, objective: Objective) -> None:
        predictions, y = example(objective)
        with pytest.raises(ObjectiveError) as error:
            objective.loss(predictions, y[:-1])
        assert "\n" not in str(error.value) and error.value.exit_code == 2
        if objective.outputs == 1:
            torch.testing.assert_close(objective.loss(predictions, y[:, None]), objective.loss(predictions, y))


@pytest.mark.parametrize(
    ("task", "targets", "classes", "kind", "chosen"),
    [
        ("classification", ("y",), 2, "auto", BinaryClassification),
        ("classification", ("y",), 3, "auto", MultiClass),
        ("classification", ("y",), 2, "multiclass", MultiClass),
        ("classification", ("a", "b"), 2, "auto", MultiLabel),
        ("classification", ("a",), 2, "multilabel", MultiLabel),
        ("regression", ("y",), 0, "auto", Regression),
        ("regression", ("a", "b"), 0, "regression", Regression),
    ],
)
def test_the_objective_is_chosen_by_the_data(
    task: str, targets: tuple[str, ...], classes: int, kind: str, chosen: type
) -> None:
    objective = choose_objective(task, targets, classes, kind)
    assert type(objective) is chosen
    assert objective.outputs == (classes if chosen is MultiClass else len(targets))
    names = {BinaryClassification: "binary", MultiClass: "multiclass", MultiLabel: "multilabel"}
    assert objective.metrics == metrics_of(names.get(chosen, "regression"), targets)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: choose_objective("classification", ("y",), 3, "binary"), "3 classes.*choose from auto, multiclass"),
        (lambda: choose_objective("regression", ("y",), 0, "multilabel"), "numbers; choose from auto, regression"),
        (lambda: choose_objective("classification", ("y",), 2, "regression"), "does not fit 1 target of 2 classes"),
        (lambda: choose_objective("classification", ("a", "b"), 2, "binary"), "2 targets of 2 classes"),
        (lambda: choose_objective("classification", ("a", "b"), 5), "2 targets of 5 classes"),
        (lambda: choose_objective("classification", ("y",), 1), "at least 2 classes, but y has 1"),
        (lambda: choose_objective("ranking", ("y",), 1), "choose from classification, regression"),
        (lambda: choose_objective("regression", ("y",), 0, "ranking"), "no objective ranking; choose from auto, bin"),
        (lambda: choose_objective("classification", ("y",), 3, loss="mse"), "mse.*MultiClass; choose from cross_ent"),
        (lambda: choose_objective("classification", ("y",), 2, std=torch.ones(1)), "only a regression"),
        (lambda: choose_objective("regression", ("y",), 0, metrics={"R2Scor": None}), "did you mean R2Score"),
        (lambda: MultiClass(1), "at least 2 classes"),
        (lambda: MultiClass(3).loss(torch.zeros(5, 4), torch.zeros(5)), "3 classes need 3 logits"),
        (lambda: Regression(("a", "b"), std=torch.ones(3)), "each of the 2 targets"),
        (lambda: Regression(std=0.0), "positive"),
    ],
)
def test_a_wrong_call_is_one_line(call, says: str) -> None:
    with pytest.raises(ObjectiveError, match=says) as error:
        call()
    assert "\n" not in str(error.value) and error.value.exit_code == 2
