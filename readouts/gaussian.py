"""Sums of Gaussian kernels and their gradient: what lies around the two products, compiled."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from permlab.readouts.compiled import compiled
from permlab.readouts.loops.exponential import exp_sums
from permlab.readouts.loops.gemm import times
from permlab.readouts.loops.rows import add_multiples, dots_of_both
from permlab.readouts.loops.vectors import address
from permlab.readouts.products import fast, product


@compiled
def _lengths(x: np.ndarray, scale: float, normalise: bool, factor: np.ndarray, minus: np.ndarray) -> None:
    """1/‖x‖ and scale · ‖u‖² of every row u = x/‖x‖; a zero row is divided by 1, as are all without `normalise`."""
    dots_of_both(address(x), x.shape[1], len(x), address(x), address(factor))
    for k in range(len(x)):  # without a branch, so that it goes by vectors
        square = factor[k]
        counts = normalise & (square > 0)
        factor[k] = np.float32(1) / np.sqrt(square if counts else np.float32(1))
        minus[k] = scale if counts else scale * square


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
    total = np.empty(len(x), dtype=np.float32)
    if normalise:  # what is along x does not count; a zero row is none
        dots_of_both(address(x), x.shape[1], len(x), address(grad_x), address(total))
        for k in range(len(x)):
            total[k] *= -factor[k] * factor[k]
    else:
        for k in range(len(x)):
            total[k] = -2 * scale * weighed[k].sum()
    add_multiples(address(x), x.shape[1], len(x), address(total), address(grad_x))
    total[:1] = 0  # it is there until now


@compiled
def _forward(
    x: np.ndarray,
    ptr: np.ndarray,
    f: np.ndarray,
    constant: np.ndarray,
    scale: float,
    normalise: bool,
    factor: np.ndarray,
    values: np.ndarray,
    out: np.ndarray,
) -> None:
    """Kernels [n, m] go to `values`, their sums to `out` [B, m], 1/‖x‖ to `factor` [n]."""
    (d, m), none, one, minus = f.shape, np.int64(0), np.int64(1), np.empty_like(factor)
    _lengths(x, scale, normalise, factor, minus)
    times(address(x), d, len(x), d, address(f), m, one, none, m, none, none, none, address(values), m)
    exp_sums(values, ptr, factor, minus, constant, out)


@compiled
def _backward(
    x: np.ndarray,
    ptr: np.ndarray,
    f: np.ndarray,
    scale: float,
    normalise: bool,
    factor: np.ndarray,
    values: np.ndarray,
    grad: np.ndarray,
    grad_x: np.ndarray,
) -> None:
    (d, m), none, one, weighed = f.shape, np.int64(0), np.int64(1), np.empty_like(values)
    weigh(values, factor, grad, ptr, weighed)
    times(address(weighed), m, len(x), m, address(f), one, m, none, d, none, none, none, address(grad_x), d)
    _straighten(x, weighed, scale, normalise, factor, grad_x)


class GaussianSums(torch.autograd.Function):
    """Σ_k exp(−‖u_k − a_j‖²/σ²) over the rows of every graph: x [n, d] → [B, m].

    −‖u − a‖² = 2⟨u, a⟩ − ‖u‖² − ‖a‖²: F = 2Aᵀ/σ² [d, m], the constant −‖a_j‖²/σ² [m], and the scale 1/σ² are given. u_k
    is x_k, scaled to length 1 if asked. No gradient for A.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor, f: Tensor, constant: Tensor, scale: float, normalise: bool) -> Tensor:
        x, bounds = x.contiguous(), ptr.numpy()
        factor, out = np.empty(len(x), dtype=np.float32), torch.empty(len(bounds) - 1, len(constant))
        if fast(x):
            values = np.empty((len(x), len(constant)), dtype=np.float32)
            given = (x.numpy(), bounds, f.numpy(), constant.numpy(), scale, normalise)
            _forward(*given, factor, values, out.numpy())
        else:
            minus = np.empty_like(factor)
            _lengths(x.numpy(), scale, normalise, factor, minus)
            values = torch.mm(x, f).numpy()
            exp_sums(values, bounds, factor, minus, constant.numpy(), out.numpy())
        ctx.save_for_backward(x)
        ctx.kept = bounds, f, scale, normalise, factor, values
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        (x,), (bounds, f, scale, normalise, factor, values) = ctx.saved_tensors, ctx.kept
        rows, given = x.numpy(), grad.contiguous().numpy()
        if fast(x):
            grad_x = torch.empty_like(x)
            _backward(rows, bounds, f.numpy(), scale, normalise, factor, values, given, grad_x.numpy())
        else:
            weighed = torch.empty(values.shape)
            weigh(values, factor, given, bounds, weighed.numpy())
            grad_x = product(weighed, f.T)
            _straighten(rows, weighed.numpy(), scale, normalise, factor, grad_x.numpy())
        return grad_x, None, None, None, None, None
