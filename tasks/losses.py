"""The losses with their gradients, in one pass each: torch takes a dozen calls for a batch of graphs."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from permlab.readouts.compiled import compiled
from permlab.readouts.tape import apply


@compiled
def entropy(logits: np.ndarray, y: np.ndarray, grad: np.ndarray, loss: np.ndarray) -> None:
    """−Σ (y log s + (1 − y) log(1 − s)) / G, s = 1/(1 + e^−z): max(z, 0) − z y + log(1 + e^−|z|)."""
    total = 0.0
    for i in range(len(logits)):
        z, target = np.float64(logits[i]), np.float64(y[i])
        small = np.exp(-abs(z))
        total += max(z, 0.0) - z * target + np.log1p(small)
        grad[i] = ((1.0 if z >= 0 else small) / (1.0 + small) - target) / len(logits)
    loss[()] = total / len(logits)


@compiled
def error(predictions: np.ndarray, y: np.ndarray, grad: np.ndarray, loss: np.ndarray) -> None:
    """Σ (z − y)² / G."""
    total = 0.0
    for i in range(len(predictions)):
        difference = np.float64(predictions[i]) - np.float64(y[i])
        total += difference * difference
        grad[i] = 2 * difference / len(predictions)
    loss[()] = total / len(predictions)


class _Loss(torch.autograd.Function):
    """What `loop` makes of predictions and targets [G]; no gradient for the targets."""

    @staticmethod
    def forward(ctx: Any, predictions: Tensor, y: Tensor, loop: Any) -> Tensor:
        grad, loss = torch.empty_like(predictions), predictions.new_empty(())
        loop(predictions.numpy(), y.numpy(), grad.numpy(), loss.numpy())
        ctx.save_for_backward(grad)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return slope if grad.item() == 1 else slope * grad, None, None


def _at_once(predictions: Tensor, y: Tensor) -> bool:
    fits = predictions.device.type == "cpu" and predictions.shape == y.shape and len(predictions) > 0
    return fits and torch.is_grad_enabled()


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """The mean over all graphs, of logits [G] and classes 0 and 1 [G]."""
    if _at_once(logits, y):
        return apply(_Loss, logits, y, entropy)
    return functional.binary_cross_entropy_with_logits(logits, y)


def squared_error(predictions: Tensor, y: Tensor) -> Tensor:
    """The mean over all graphs, of predictions and targets [G]."""
    if _at_once(predictions, y):
        return apply(_Loss, predictions, y, error)
    return functional.mse_loss(predictions, y)
