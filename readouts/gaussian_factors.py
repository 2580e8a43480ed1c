"""Sums of Gaussian kernels of X = P W + 1bᵀ without X: for a P that is narrower than X.

With F = 2Aᵀ/σ² for kernel vectors A: X F = P (W F) + b F, and ‖x‖² = ⟨p, s⟩ + ⟨p, g⟩ + ‖b‖² with s = p W Wᵀ + g and
g = W b. Where the terms of that sum nearly cancel, x is made after all.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from permlab.readouts.compiled import compiled
from permlab.readouts.gaussian import Gaussian, weigh
from permlab.readouts.loops.exponential import exp_sums
from permlab.readouts.products import outer, product

CANCELLED = 0.05  # what is left of the terms' sizes


@compiled(any_order=True)
def _lengths(
    p: np.ndarray,
    s: np.ndarray,
    g: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    scale: float,
    factor: np.ndarray,
    minus: np.ndarray,
) -> None:
    """1/‖x‖ and scale · ‖u‖², u = x/‖x‖, of every row; a zero row is divided by 1."""
    rest = np.float32(0)
    for c in range(len(bias)):
        rest += bias[c] * bias[c]
    x = np.empty(len(bias), dtype=np.float32)
    for k in range(len(p)):
        square, size = rest, rest
        for c in range(p.shape[1]):
            term, other = p[k, c] * s[k, c], p[k, c] * g[c]
            square += term + other
            size += abs(term) + abs(other)
        if not square > CANCELLED * size:
            x[:] = bias
            for c in range(p.shape[1]):
                for j in range(len(x)):
                    x[j] += p[k, c] * weight[c, j]
            square = np.float32(0)
            for j in range(len(x)):
                square += x[j] * x[j]
        if square > 0:
            factor[k], minus[k] = np.float32(1) / np.sqrt(square), scale
        else:
            factor[k], minus[k] = np.float32(1), np.float32(0) * square  # what is no number stays


@compiled(any_order=True)
def _backward(
    p: np.ndarray,
    s: np.ndarray,
    factor: np.ndarray,
    grad_pv: np.ndarray,
    grad_p: np.ndarray,
    longer: np.ndarray,
    scaled: np.ndarray,
) -> None:
    """grad_pv [n, h + 1], the gradient through (W F, b F) → grad_p [n, h], (p, 1) and c (p, 1), both [n, h + 1].

    c = ∂‖x‖/‖x‖ = −⟨∂z, z⟩/‖x‖², z = x F, and ‖x‖ ∂‖x‖/∂p = s.
    """
    h = p.shape[1]
    for k in range(len(p)):
        total = grad_pv[k, h]
        for c in range(h):
            total += p[k, c] * grad_pv[k, c]
        total *= -factor[k] * factor[k]
        for c in range(h):
            grad_p[k, c] = grad_pv[k, c] + total * s[k, c]
            longer[k, c], scaled[k, c] = p[k, c], total * p[k, c]
        longer[k, h], scaled[k, h] = np.float32(1), total


class FactoredGaussianSums(torch.autograd.Function):
    """`GaussianSums` of the rows of P W + 1bᵀ, scaled to length 1: p [n, h], weight [h, d], bias [d] → [B, m]."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, weight: Tensor, bias: Tensor, gaussian: Gaussian) -> Tensor:
        p, (ptr, factors, constant, scale, _) = p.contiguous(), gaussian
        bounds = ptr.numpy()
        layer = torch.cat([weight, bias[None]])
        v, g = torch.mm(layer, factors), torch.mv(weight, bias)
        s = product(p, torch.mm(weight, weight.T), g)
        factor, minus = np.empty((2, len(p)), dtype=np.float32)
        _lengths(p.numpy(), s.numpy(), g.numpy(), weight.numpy(), bias.numpy(), scale.numpy()[0], factor, minus)
        values, out = product(p, v[:-1], v[-1]), torch.empty(len(bounds) - 1, len(constant))
        exp_sums(values.numpy(), bounds, factor, minus, constant.numpy(), out.numpy())
        ctx.save_for_backward(p)
        ctx.kept = s, layer, factors, v, bounds, factor, values.numpy()
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (p,), (s, layer, factors, v, bounds, factor, values) = ctx.saved_tensors, ctx.kept
        grad_z, grad_p = torch.empty(values.shape), torch.empty_like(p)
        weigh(values, factor, grad.contiguous().numpy(), bounds, grad_z.numpy())
        grad_pv = product(grad_z, v.T)
        longer, scaled = torch.empty_like(grad_pv), torch.empty_like(grad_pv)
        made = (each.numpy() for each in (grad_pv, grad_p, longer, scaled))
        _backward(p.numpy(), s.numpy(), factor, *made)
        grad_layer = torch.addmm(torch.mm(outer(longer, grad_z), factors.T), outer(longer, scaled), layer)
        return grad_p, grad_layer[:-1], grad_layer[-1], None
