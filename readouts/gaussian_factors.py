"""Sums of Gaussian kernels of X = P W + 1bᵀ without X: for a P that is narrower than X.

With F = 2Aᵀ/σ² for kernel vectors A: X F = P (W F) + b F, and ‖x‖² = ⟨p, S⟩ + ⟨p, g⟩ + ‖b‖² with S = p W Wᵀ + g, g = W b.
Where the terms of that sum nearly cancel, x is made after all.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from permlab.readouts.compiled import compiled
from permlab.readouts.exponential import exp_sums
from permlab.readouts.gaussian import weigh
from permlab.readouts.gemm import times
from permlab.readouts.products import outer, product
from permlab.readouts.vectors import address

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


@compiled
def _forward(
    p: np.ndarray,
    s: np.ndarray,
    g: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    ptr: np.ndarray,
    v: np.ndarray,
    constant: np.ndarray,
    scale: float,
    factor: np.ndarray,
    minus: np.ndarray,
    values: np.ndarray,
    out: np.ndarray,
) -> None:
    """v [h + 1, m]: W F, and b F below it."""
    (n, h), m = p.shape, v.shape[1]
    _lengths(p, s, g, weight, bias, scale, factor, minus)
    times(address(p), h, n, h, address(v), m, 1, address(v) + 4 * h * m, m, 0, 0, 0, address(values), m)
    exp_sums(address(values), m, ptr, address(factor), address(minus), address(constant), address(out))


@compiled(any_order=True)
def _backward(
    p: np.ndarray, s: np.ndarray, factor: np.ndarray, grad_pv: np.ndarray, grad_p: np.ndarray, cp: np.ndarray
) -> None:
    """grad_pv [n, h + 1], the gradient through (W F, b F) → grad_p [n, h], and cp [n, h + 1] = c (p, 1).

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
            cp[k, c] = total * p[k, c]
        cp[k, h] = total


class FactoredGaussianSums(torch.autograd.Function):
    """`GaussianSums` of the rows of P W + 1bᵀ, scaled to length 1: p [n, h], weight [h, d], bias [d] → [B, m]."""

    @staticmethod
    def forward(
        ctx: Any, p: Tensor, weight: Tensor, bias: Tensor, ptr: Tensor, factors: Tensor, constant: Tensor, scale: float
    ) -> Tensor:
        p, bounds, below = p.contiguous(), ptr.numpy(), constant.numpy()
        longer = torch.cat([weight, bias[None]])
        v, g = torch.mm(longer, factors), torch.mv(weight, bias)
        s = product(p, torch.mm(weight, weight.T), g)
        factor, minus = np.empty((2, len(p)), dtype=np.float32)
        values, out = (np.empty((count, len(below)), dtype=np.float32) for count in (len(p), len(bounds) - 1))
        layer = (weight.detach().numpy(), bias.detach().numpy())
        _forward(p.numpy(), s.numpy(), g.numpy(), *layer, bounds, v.numpy(), below, scale, factor, minus, values, out)
        ctx.kept = p, s, longer, factors, v, bounds, factor, values
        return torch.from_numpy(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        p, s, longer, factors, v, bounds, factor, values = ctx.kept
        grad_z, grad_p, cp = torch.empty(values.shape), torch.empty_like(p), torch.empty(len(p), len(v))
        weigh(values, factor, grad.contiguous().numpy(), bounds, grad_z.numpy())
        grad_pv = product(grad_z, v.T)
        _backward(p.numpy(), s.numpy(), factor, grad_pv.numpy(), grad_p.numpy(), cp.numpy())
        squares = torch.empty(len(v), len(v))  # Σ c (p, 1)(p, 1)ᵀ
        squares[:-1] = outer(p, cp)
        squares[-1, :-1], squares[-1, -1] = squares[:-1, -1], cp[:, -1].sum()
        grad_v = torch.cat([outer(p, grad_z), grad_z.sum(0, keepdim=True)])
        grad_longer = torch.addmm(torch.mm(grad_v, factors.T), squares, longer)
        return grad_p, grad_longer[:-1], grad_longer[-1], None, None, None, None
