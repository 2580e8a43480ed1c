from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from permlab.tasks.losses import LOSSES
from permlab.tasks.objectives import BinaryClassification, MultiClass, MultiLabel, ObjectiveError, Regression

SCALAR = {
    "mse": lambda r: r**2,
    "l1": abs,
    "huber": lambda r: r**2 / 2 if abs(r) <= 1 else abs(r) - 0.5,
}


@pytest.mark.parametrize("name", SCALAR)
@pytest.mark.parametrize("shape", [(40,), (40, 3)], ids=str)
def test_a_loss_of_numbers_is_the_mean_of_its_formula_over_what_is_present(name: str, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    z, y = 2 * random.standard_normal((2, *shape))
    y[random.random(shape) < 0.3] = np.nan
    objective = Regression(("a",) if len(shape) == 1 else ("a", "b", "c"), loss=name)
    terms = [SCALAR[name](a - b) for a, b in zip(z.flat, y.flat, strict=True) if not np.isnan(b)]
    computed = objective.loss(torch.from_numpy(z), torch.from_numpy(y))
    assert computed.item() == pytest.approx(np.mean(terms), rel=1e-12)
    assert objective.measure(torch.from_numpy(z), torch.from_numpy(y))["loss"] == computed.item()


@pytest.mark.parametrize(
    ("make", "fitting"),
    [
        (BinaryClassification, {"bce"}),
        (lambda loss: MultiClass(3, loss), {"cross_entropy"}),
        (lambda loss: MultiLabel(("a", "b"), loss), {"bce"}),
        (lambda loss: Regression(loss=loss), {"mse", "l1", "huber"}),
    ],
    ids=["binary", "multiclass", "multilabel", "regression"],
)
def test_a_loss_by_name_fits_or_the_choices_are_named(make: Any, fitting: set[str]) -> None:
    assert make("auto").has_default_loss
    for name in LOSSES:
        if name in fitting:
            assert make(name).loss_function is LOSSES[name]
            continue
        with pytest.raises(ObjectiveError, match=f"the loss {name} does not fit") as error:
            make(name)
        assert set(str(error.value).split("choose from ")[1].split(", ")) == fitting


class Weighted(nn.Module):
    """A loss with a buffer."""

    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.tensor(3.0))

    def forward(self, predictions: Tensor, y: Tensor) -> Tensor:
        return (self.weight * (predictions - y).abs()).nanmean()


class Trainable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, predictions: Tensor, y: Tensor) -> Tensor:
        return self.weight * (predictions - y).square().mean()


def test_a_function_or_a_module_of_ones_own_is_the_loss() -> None:
    z, y = torch.tensor([1.0, 2.0, 4.0], requires_grad=True), torch.tensor([1.0, float("nan"), 2.0])
    seen: list[Tensor] = []

    def remembered(predictions: Tensor, targets: Tensor) -> Tensor:
        seen.extend([predictions, targets])
        return predictions.sum()

    assert Regression(loss=remembered).loss(z, y).item() == 7
    assert seen[0] is z and torch.equal(seen[1].isnan(), y.isnan())
    objective = Regression(loss=Weighted())
    objective.loss(z, y).backward()
    assert z.grad.tolist() == [0, 0, 1.5] and not objective.has_default_loss
    assert objective.measure(z.detach(), y) == {"loss": 3.0, "mae": 1.0}


def test_torchs_own_cross_entropy_takes_classes_of_which_some_are_missing() -> None:
    logits, y = torch.randn(6, 3), torch.tensor([0.0, 1, 2, float("nan"), 1, 0])
    torch.testing.assert_close(MultiClass(3, nn.CrossEntropyLoss()).loss(logits, y), MultiClass(3).loss(logits, y))


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        (nn.MSELoss, "neither a name nor a function"),
        (3, "neither a name nor a function"),
        (Trainable(), "Trainable has parameters"),
    ],
)
def test_what_is_no_loss_is_told_at_once(loss: Any, says: str) -> None:
    with pytest.raises(ObjectiveError, match=says):
        Regression(loss=loss)


@pytest.mark.parametrize(
    ("loss", "says"), [(nn.MSELoss(reduction="none"), r"shape \[4\]"), (lambda p, y: 1.0, "float")]
)
def test_what_gives_no_single_number_is_told_at_the_first_call(loss: Any, says: str) -> None:
    with pytest.raises(ObjectiveError, match=f"one number, but it gives.*{says}"):
        Regression(loss=loss).loss(torch.zeros(4), torch.zeros(4))
