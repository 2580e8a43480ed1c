"""Layers σ(Â H W + b), with Â or without, several of them as one step of the tape."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from permlab.datasets.batch import GraphBatch
from permlab.readouts.segments import bag, transposed

NARROW = 16  # columns; MKL takes three to five times as long over fewer, unless they are the rows of the product


class Layer(NamedTuple):
    """What a layer is, its weight [p, q] and bias [q] left out."""

    activation: str = "none"
    graph: bool = False  # multiplied by Â
    linear: bool = False  # the weight is kept as `nn.Linear` keeps it: [q, p]


def propagate(batch: GraphBatch, h: Tensor) -> Tensor:
    """Â H: for every node the weighted sum of its neighbours' rows, [n, k] → [n, k].

    An embedding bag is that sum, and three times as fast as a product with a sparse CSR tensor.
    """
    return bag(h, batch.a_column, batch.a_ptr, batch.a_value)


def product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, [n, p] × [p, q]."""
    return transposed(torch.mm(b.T, a.T)) if 1 < b.size(1) < NARROW else torch.mm(a, b)


def _relu_slope(grad: Tensor, out: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(grad, out, 0)


# σ, in place where it can be, and grad · σ' in terms of σ's value.
_ACTIVATIONS: dict[str, Any] = {
    "relu": (torch.relu_, _relu_slope),
    "tanh": (torch.tanh_, lambda grad, out: grad * (1 - out * out)),
    "elu": (functional.elu_, lambda grad, out: torch.where(out > 0, grad, grad * (out + 1))),
    "none": (lambda z: z, lambda grad, out: grad),
}


class _Chain(torch.autograd.Function):
    """What autograd would do in six steps a layer. Â is symmetric: the gradient of Â H is Â times the gradient."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, layers: Sequence[Layer], batch: Any, *parameters: Tensor) -> Tensor:
        saved: list[Tensor] = []  # the input of every layer's product, weight and output
        for i, (activation, graph, linear) in enumerate(layers):
            weight, bias = parameters[2 * i], parameters[2 * i + 1]
            w = weight.T if linear else weight
            last = graph and w.size(0) > w.size(1)  # multiply by Â where rows are narrower
            if graph and not last:
                h = propagate(batch, h)
            if last:
                z = propagate(batch, product(h, w)).add_(bias)
            else:
                z = product(h, w).add_(bias) if 1 < w.size(1) < NARROW else torch.addmm(bias, h, w)
            saved += (h, weight)
            h = _ACTIVATIONS[activation][0](z)
            saved.append(h)
        ctx.save_for_backward(*saved)
        ctx.layers, ctx.batch = layers, batch
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        saved, batch = ctx.saved_tensors, ctx.batch
        gradients: list[Tensor] = []  # from the last parameter to the first
        for i in reversed(range(len(ctx.layers))):
            activation, graph, linear = ctx.layers[i]
            h, weight, out = saved[3 * i : 3 * i + 3]
            grad = _ACTIVATIONS[activation][1](grad, out).contiguous()
            gradients.append(grad.sum(0))
            last = graph and h.size(1) > out.size(1)
            if last:
                grad = propagate(batch, grad)
            if grad.size(1) < NARROW or linear:
                gradients.append(torch.mm(grad.T, h) if linear else torch.mm(grad.T, h).T)
            else:
                gradients.append(torch.mm(h.T, grad))
            if not i and not ctx.needs_input_grad[0]:
                return None, None, None, *reversed(gradients)
            grad = product(grad, weight if linear else weight.T)
            if graph and not last:
                grad = propagate(batch, grad)
        return grad, None, None, *reversed(gradients)


def chain(h: Tensor, layers: Sequence[Layer], parameters: Sequence[Tensor], batch: GraphBatch | None = None) -> Tensor:
    """H ↦ σ(Â H W + b) for one layer after the other; `parameters` are W, b of the first, W, b of the second, …

    h [n, p], W [p, q], b [q] → [n, q]; Â is that of `batch`.
    """
    out: Tensor = _Chain.apply(h, layers, batch, *parameters)
    return out


def activate(z: Tensor, activation: str) -> Tensor:
    """σ(z), with a tape of its own; ReLU in place, so z must be a fresh product that nothing else needs."""
    functions = {"relu": torch.relu_, "tanh": torch.tanh, "elu": functional.elu, "none": lambda z: z}
    out: Tensor = functions[activation](z)
    return out
