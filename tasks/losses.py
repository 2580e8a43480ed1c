"""The losses by name: (predictions, y) → a scalar, the mean over the labels that are present. NaN in y is a missing
label: it adds nothing, and its prediction gets no gradient. Without any label a loss is 0.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from permlab.tasks.errors import ObjectiveError

LossFunction = Callable[[Tensor, Tensor], Tensor]
MISSING_CLASS = -100  # what torch's own cross entropy leaves out


def bce(predictions: Tensor, y: Tensor, pos_weight: Tensor | None = None) -> Tensor:
    """−(1/K) Σ w y log s + (1 − y) log(1 − s), s = 1/(1 + e^−z), of logits z and labels 0 and 1 of one shape, K
    present; w = 1, or `pos_weight` [1] or [T].

    With all K labels present it has the bits of torch's function, gradients included, and the host never waits to see
    whether they are.
    """
    missing = y.isnan()
    present = (~missing).to(predictions.dtype)
    loss = functional.binary_cross_entropy_with_logits(
        predictions, y.masked_fill(missing, 0), weight=present, pos_weight=pos_weight
    )
    return loss * _share(missing, loss)


def cross_entropy(predictions: Tensor, y: Tensor) -> Tensor:
    """−(1/K) Σ log softmax(z_g)[y_g] of logits z [G, C] and classes y [G], int64, −100 where missing; K present."""
    total = functional.cross_entropy(predictions, y, ignore_index=MISSING_CLASS, reduction="sum")
    return total / (y != MISSING_CLASS).sum().clamp(min=1)


def mse(predictions: Tensor, y: Tensor) -> Tensor:
    """(1/K) Σ (z − y)², z and y of one shape; K present."""
    return _of_differences(functional.mse_loss, predictions, y)


def l1(predictions: Tensor, y: Tensor) -> Tensor:
    """(1/K) Σ |z − y|, z and y of one shape; K present."""
    return _of_differences(functional.l1_loss, predictions, y)


def huber(predictions: Tensor, y: Tensor) -> Tensor:
    """(1/K) Σ h(z − y), h(r) = r²/2 where |r| ≤ 1, else |r| − 1/2; K present."""
    return _of_differences(functional.huber_loss, predictions, y)


LOSSES: dict[str, LossFunction] = {function.__name__: function for function in (bce, cross_entropy, mse, l1, huber)}


def _of_differences(function: Callable[..., Tensor], predictions: Tensor, y: Tensor) -> Tensor:
    """A function of z − y that is 0, with gradient 0, at 0: where y is missing, z itself takes its place."""
    missing = y.isnan()
    loss = function(predictions, torch.where(missing, predictions.detach(), y))
    return loss * _share(missing, loss)


def _share(missing: Tensor, loss: Tensor) -> Tensor:
    """All entries / those present: exactly 1 if all are, which n · (1/n) is not always."""
    dtype = torch.promote_types(loss.dtype, torch.float32)
    entries = missing.new_full((), missing.numel(), dtype=dtype)
    return (entries / (~missing).sum().clamp(min=1).to(dtype)).to(loss.dtype)


def find_loss(loss: Any, choices: tuple[str, ...], objective: str) -> LossFunction:
    """A loss by its name, one of `choices`, the first of them for "auto"; or any callable (predictions, y) → scalar."""
    if isinstance(loss, str):
        if loss != "auto" and loss not in choices:
            raise ObjectiveError(f"the loss {loss} does not fit {objective}; choose from {', '.join(choices)}")
        return LOSSES[choices[0] if loss == "auto" else loss]
    if isinstance(loss, type) or not callable(loss):
        raise ObjectiveError(f"the loss {loss!r} is neither a name nor a function of (predictions, y)")
    if isinstance(loss, nn.Module) and next(loss.parameters(), None) is not None:
        raise ObjectiveError(f"the loss {type(loss).__name__} has parameters; only those of the model are trained")
    return loss
