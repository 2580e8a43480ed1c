"""One layer as one step of the tape: σ(Â H W + b), with Â or without."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from permlab.datasets.batch import GraphBatch
from permlab.readouts.segments import bag

NARROW = 16  # columns; MKL takes three to five times as long over fewer, unless they are the rows of the product


def propagate(batch: GraphBatch, h: Tensor) -> Tensor:
    """Â H: for every node the weighted sum of its neighbours' rows, [n, k] → [n, k].

    An embedding bag is that sum, and three times as fast as a product with a sparse CSR tensor.
    """
    return bag(h, batch.a_column, batch.a_ptr, batch.a_value)


def product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, [n, p] × [p, q]."""
    return torch.mm(b.T, a.T).T.contiguous() if 1 < b.size(1) < NARROW else torch.mm(a, b)


def _relu_slope(grad: Tensor, out: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(grad, out, 0)


# σ, in place where it can be, and grad · σ' in terms of σ's value.
_ACTIVATIONS: dict[str, Any] = {
    "relu": (torch.relu_, _relu_slope),
    "tanh": (torch.tanh_, lambda grad, out: grad * (1 - out * out)),
    "elu": (functional.elu_, lambda grad, out: torch.where(out > 0, grad, grad * (out + 1))),
    "none": (lambda z: z, lambda grad, out: grad),
}


class _Layer(torch.autograd.Function):
    """What autograd would do in six steps. Â is symmetric: the gradient of Â H is Â times the gradient."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, activation: str, batch: GraphBatch | None, linear: bool
    ) -> Tensor:
        w = weight.T if linear else weight
        last = batch is not None and w.size(0) > w.size(1)  # multiply by Â where rows are narrower
        h = propagate(batch, h) if batch is not None and not last else h
        if batch is not None and last:
            z = propagate(batch, product(h, w)).add_(bias)
        else:
            z = product(h, w).add_(bias) if 1 < w.size(1) < NARROW else torch.addmm(bias, h, w)
        out = _ACTIVATIONS[activation][0](z)
        ctx.save_for_backward(h, weight, out)
        ctx.activation, ctx.batch, ctx.last, ctx.linear = activation, batch, last, linear
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None, None, None]:
        h, weight, out = ctx.saved_tensors
        grad = _ACTIVATIONS[ctx.activation][1](grad, out).contiguous()
        grad_bias = grad.sum(0)
        if ctx.last:
            grad = propagate(ctx.batch, grad)
        if grad.size(1) < NARROW or ctx.linear:
            grad_weight = torch.mm(grad.T, h) if ctx.linear else torch.mm(grad.T, h).T
        else:
            grad_weight = torch.mm(h.T, grad)
        grad_h = None
        if ctx.needs_input_grad[0]:
            grad_h = product(grad, weight if ctx.linear else weight.T)
            if ctx.batch is not None and not ctx.last:
                grad_h = propagate(ctx.batch, grad_h)
        return grad_h, grad_weight, grad_bias, None, None, None


def layer(h: Tensor, weight: Tensor, bias: Tensor, activation: str = "none", batch: GraphBatch | None = None) -> Tensor:
    """σ(Â H W + b) with the Â of `batch`, or σ(H W + b): h [n, p], weight [p, q], bias [q] → [n, q]."""
    out: Tensor = _Layer.apply(h, weight, bias, activation, batch, False)
    return out


def dense(h: Tensor, linear: torch.nn.Linear, activation: str = "none") -> Tensor:
    """σ(linear(h)): h [n, p] → [n, q]."""
    out: Tensor = _Layer.apply(h, linear.weight, linear.bias, activation, None, True)
    return out


def activate(z: Tensor, activation: str) -> Tensor:
    """σ(z), with a tape of its own; ReLU in place, so z must be a fresh product that nothing else needs."""
    functions = {"relu": torch.relu_, "tanh": torch.tanh, "elu": functional.elu, "none": lambda z: z}
    out: Tensor = functions[activation](z)
    return out
