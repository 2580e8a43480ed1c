"""Sums of Gaussian kernels and their gradient, compiled: one call each way."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from permlab.readouts.compiled import compiled
from permlab.readouts.exponential import exp_sums
from permlab.readouts.gemm import times
from permlab.readouts.vectors import address


@compiled(any_order=True)
def _lengths(x: np.ndarray, scale: float, normalise: bool, factor: np.ndarray, minus: np.ndarray) -> None:
    """1/‖x‖ and scale · ‖u‖² of every row u = x/‖x‖; a zero row is divided by 1, as all are if they are left as they are."""
    for k in range(len(x)):
        square = np.float32(0)
        for c in range(x.shape[1]):
            square += x[k, c] * x[k, c]
        if normalise and square > 0:
            factor[k], minus[k] = np.float32(1) / np.sqrt(square), scale
        else:
            factor[k], minus[k] = np.float32(1), scale * square


@compiled
def _forward(
    x: np.ndarray,
    ptr: np.ndarray,
    factors: np.ndarray,
    bias: np.ndarray,
    scale: float,
    normalise: bool,
    factor: np.ndarray,
    minus: np.ndarray,
    values: np.ndarray,
    out: np.ndarray,
) -> None:
    (n, d), m = x.shape, len(bias)
    _lengths(x, scale, normalise, factor, minus)
    times(address(x), d, n, d, address(factors), m, 1, 0, m, 0, 0, 0, address(values), m)
    exp_sums(address(values), m, ptr, address(factor), address(minus), address(bias), address(out))


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
def _backward(
    grad: np.ndarray,
    x: np.ndarray,
    ptr: np.ndarray,
    factors: np.ndarray,
    scale: float,
    normalise: bool,
    factor: np.ndarray,
    values: np.ndarray,
    weighed: np.ndarray,
    grad_x: np.ndarray,
) -> None:
    (n, d), m = x.shape, len(factors[0])
    weigh(values, factor, grad, ptr, weighed)
    times(address(weighed), m, n, m, address(factors), 1, m, 0, d, 0, 0, 0, address(grad_x), d)
    for k in range(n):
        row, given, total = grad_x[k], x[k], np.float32(0)
        if normalise:  # what is along x does not count; a zero row is none
            for c in range(d):
                total += given[c] * row[c]
            total *= -factor[k] * factor[k]
        else:
            for c in range(m):
                total += weighed[k, c]
            total *= -2 * scale
        for c in range(d):
            row[c] += total * given[c]


class GaussianSums(torch.autograd.Function):
    """Σ_k exp(−‖u_k − a_j‖²/σ²) over the rows of every graph: x [n, d] → [B, m].

    −‖u − a‖² = 2⟨u, a⟩ − ‖u‖² − ‖a‖²: F = 2Aᵀ/σ² [d, m], the constant −‖a_j‖²/σ² [m], and the scale 1/σ² are given. u_k
    is x_k, scaled to length 1 if asked. No gradient for A.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, ptr: Tensor, f: Tensor, constant: Tensor, scale: float, normalise: bool
    ) -> Tensor:
        rows, bounds, factors, bias = x.contiguous().numpy(), ptr.numpy(), f.numpy(), constant.numpy()
        factor, minus = np.empty((2, len(rows)), dtype=np.float32)
        values, out = (np.empty((count, len(bias)), dtype=np.float32) for count in (len(rows), len(bounds) - 1))
        _forward(rows, bounds, factors, bias, scale, normalise, factor, minus, values, out)
        ctx.kept = rows, bounds, factors, scale, normalise, factor, values
        return torch.from_numpy(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        rows, values = ctx.kept[0], ctx.kept[-1]
        grad_x = torch.empty(rows.shape)
        _backward(grad.contiguous().numpy(), *ctx.kept, np.empty_like(values), grad_x.numpy())
        return grad_x, None, None, None, None, None
