"""Sums of Gaussian kernels and their gradient: what lies around the two products, compiled."""

from typing import Any, NamedTuple

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
    for k in range(len(x)):
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
def sums_forth(
    x: np.ndarray,
    ptr: np.ndarray,
    f: np.ndarray,
    constant: np.ndarray,
    scale: np.ndarray,
    normalise: bool,
    factor: np.ndarray,
    values: np.ndarray,
    out: np.ndarray,
) -> None:
    """Kernels [n, m] go to `values`, their sums to `out` [B, m], 1/‖x‖ to `factor` [n]."""
    (d, m), minus = f.shape, np.empty_like(factor)
    _lengths(x, scale[0], normalise, factor, minus)
    times(address(x), d, len(x), d, address(f), m, 1, 0, m, 0, 0, 0, address(values), m)
    exp_sums(values, ptr, factor, minus, constant, out)


@compiled
def sums_back(
    x: np.ndarray,
    ptr: np.ndarray,
    f: np.ndarray,
    constant: np.ndarray,
    scale: np.ndarray,
    normalise: bool,
    factor: np.ndarray,
    values: np.ndarray,
    grad: np.ndarray,
    grad_x: np.ndarray,
) -> None:
    """The gradient of x [n, d] from that of the sums [B, m]."""
    (d, m), weighed = f.shape, np.empty_like(values)
    weigh(values, factor, grad, ptr, weighed)
    times(address(weighed), m, len(x), m, address(f), 1, m, 0, d, 0, 0, 0, address(grad_x), d)
    _straighten(x, weighed, scale[0], normalise, factor, grad_x)


class Gaussian(NamedTuple):
    """X ↦ Σ_k exp(−‖u_k − a_j‖²/σ²) over the rows of every graph, [n, d] → [B, m]; u_k is x_k, or x_k/‖x_k‖.

    −‖u − a‖² = 2⟨u, a⟩ − ‖u‖² − ‖a‖².
    """

    ptr: Tensor  # [B + 1] int64
    f: Tensor  # [d, m], 2Aᵀ/σ²
    constant: Tensor  # [m], −‖a_j‖²/σ²
    scale: Tensor  # [1], 1/σ²
    normalise: bool


class GaussianSums(torch.autograd.Function):
    """A `Gaussian` of x [n, d]; no gradient for A."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gaussian: Gaussian) -> Tensor:
        x, (ptr, f, constant, scale, normalise) = x.contiguous(), gaussian
        factor, out = np.empty(len(x), dtype=np.float32), torch.empty(len(ptr) - 1, len(constant))
        given = (x.numpy(), ptr.numpy(), f.numpy(), constant.numpy(), scale.numpy(), normalise)
        if fast(x):
            values = np.empty((len(x), len(constant)), dtype=np.float32)
            sums_forth(*given, factor, values, out.numpy())
        else:
            minus, values = np.empty_like(factor), torch.mm(x, f).numpy()
            _lengths(x.numpy(), scale.numpy()[0], normalise, factor, minus)
            exp_sums(values, ptr.numpy(), factor, minus, constant.numpy(), out.numpy())
        ctx.save_for_backward(x)
        ctx.kept = given, factor, values
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,), (given, factor, values), slopes = ctx.saved_tensors, ctx.kept, grad.contiguous().numpy()
        if fast(x):
            grad_x = torch.empty_like(x)
            sums_back(*given, factor, values, slopes, grad_x.numpy())
        else:
            rows, ptr, f, _, scale, normalise = given
            weighed = torch.empty(values.shape)
            weigh(values, factor, slopes, ptr, weighed.numpy())
            grad_x = product(weighed, torch.from_numpy(f).T)
            _straighten(rows, weighed.numpy(), scale[0], normalise, factor, grad_x.numpy())
        return grad_x, None
