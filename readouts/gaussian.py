"""Sums of Gaussian kernels and their gradient: what lies around the two products, compiled."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from permlab.readouts.compiled import compiled
from permlab.readouts.loops.exponential import exp_sums
from permlab.readouts.products import product


@compiled(any_order=True)
def _lengths(x: np.ndarray, scale: float, normalise: bool, factor: np.ndarray, minus: np.ndarray) -> None:
    """1/‖x‖ and scale · ‖u‖² of every row u = x/‖x‖; a zero row is divided by 1, as are all without `normalise`."""
    for k in range(len(x)):
        square = np.float32(0)
        for c in range(x.shape[1]):
            square += x[k, c] * x[k, c]
        if normalise and square > 0:
            factor[k], minus[k] = np.float32(1) / np.sqrt(square), scale
        else:
            factor[k], minus[k] = np.float32(1), scale * square


@compiled
def weigh(values: np.ndarray, factor: np.ndarray, grad: np.ndarray, ptr: np.ndarray, out: np.ndarray) -> None:
    """The gradient of ⟨x, 2a⟩/σ²: factor_k · values_kj · ∂_bj of every row k of graph b."""
    for graph in range(len(grad)):
        given = grad[graph]
        for k in range(ptr[graph], ptr[graph + 1]):
            source, target, scale = values[k], out[k], factor[k]
            for c in range(len(given)):
                target[c] = source[c] * given[c] * scale


@compiled(any_order=True)
def _straighten(
    x: np.ndarray, weighed: np.ndarray, scale: float, normalise: bool, factor: np.ndarray, grad_x: np.ndarray
) -> None:
    """What ‖u‖² and the scaling to length 1 add to the gradient of x."""
    for k in range(len(x)):
        row, given, total = grad_x[k], x[k], np.float32(0)
        if normalise:  # what is along x does not count; a zero row is none
            for c in range(len(row)):
                total += given[c] * row[c]
            total *= -factor[k] * factor[k]
        else:
            for c in range(weighed.shape[1]):
                total += weighed[k, c]
            total *= -2 * scale
        for c in range(len(row)):
            row[c] += total * given[c]


class GaussianSums(torch.autograd.Function):
    """Σ_k exp(−‖u_k − a_j‖²/σ²) over the rows of every graph: x [n, d] → [B, m].

    −‖u − a‖² = 2⟨u, a⟩ − ‖u‖² − ‖a‖²: F = 2Aᵀ/σ² [d, m], the constant −‖a_j‖²/σ² [m], and the scale 1/σ² are given. u_k
    is x_k, scaled to length 1 if asked. No gradient for A.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor, f: Tensor, constant: Tensor, scale: float, normalise: bool) -> Tensor:
        x, bounds = x.contiguous(), ptr.numpy()
        factor, minus = np.empty((2, len(x)), dtype=np.float32)
        _lengths(x.numpy(), scale, normalise, factor, minus)
        values, out = product(x, f), torch.empty(len(bounds) - 1, len(constant))
        exp_sums(values.numpy(), bounds, factor, minus, constant.numpy(), out.numpy())
        ctx.save_for_backward(x)
        ctx.kept = bounds, f, scale, normalise, factor, values.numpy()
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        (x,), (bounds, f, scale, normalise, factor, values) = ctx.saved_tensors, ctx.kept
        weighed = torch.empty(values.shape)
        weigh(values, factor, grad.contiguous().numpy(), bounds, weighed.numpy())
        grad_x = product(weighed, f.T)
        _straighten(x.numpy(), weighed.numpy(), scale, normalise, factor, grad_x.numpy())
        return grad_x, None, None, None, None, None
