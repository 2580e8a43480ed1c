"""Layers σ(A H W + b), with a sum over neighbours A or without, several of them as one step of the tape."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from permlab.readouts.products import NARROW, fast, product
from permlab.readouts.tape import apply
from permlab.tasks.fused import FusedChain
from permlab.tasks.hop import Step, through


class Layer(NamedTuple):
    """What a layer is, its weight [p, q] and bias [q] left out."""

    activation: str = "none"
    linear: bool = False  # the weight is kept as `nn.Linear` keeps it: [q, p]


def _relu_slope(grad: Tensor, out: Tensor, room: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward.grad_input(grad, out, 0, grad_input=room)


# σ, in place where it can be, and grad · σ' in terms of σ's value; `room` may take it.
_ACTIVATIONS: dict[str, Any] = {
    "relu": (torch.relu_, _relu_slope),
    "tanh": (torch.tanh_, lambda grad, out, room: grad * (1 - out * out)),
    "elu": (functional.elu_, lambda grad, out, room: torch.where(out > 0, grad, grad * (out + 1))),
    "none": (lambda z: z, lambda grad, out, room: grad),
}


class _Chain(torch.autograd.Function):
    """What autograd would do in six steps a layer."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, layers: Sequence[Layer], steps: Sequence[Step | None], flat: bool, *parameters: Tensor
    ) -> Tensor:
        saved: list[Tensor] = []  # the input of every layer's product, weight and output
        products_first = []
        for i, ((activation, linear), step) in enumerate(zip(layers, steps, strict=False)):
            weight, bias = parameters[2 * i], parameters[2 * i + 1]
            w = weight.T if linear else weight
            first = step is not None and h.size(0) * w.size(1) < (len(step.forth.ptr) - 1) * w.size(0)
            if step is not None and not first:
                h = step.forth(h)
            bias = bias if step is None or step.sizes is None else step.sizes[:, None] * bias
            if step is not None and first:
                z = step.forth(product(h, w)).add_(bias)
            else:
                z = product(h, w).add_(bias) if 1 < w.size(1) < NARROW else torch.addmm(bias, h, w)
            saved += (h, weight)
            products_first.append(first)
            h = _ACTIVATIONS[activation][0](z)
            saved.append(h)
        ctx.save_for_backward(*saved)
        ctx.layers, ctx.steps, ctx.products_first = layers, steps, products_first
        last = steps[-1] if len(steps) > len(layers) else None
        h = h if last is None else last.forth(h)
        return h.view(-1) if flat else h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        gradients: list[Tensor] = []  # from the last parameter to the first
        grad = grad.view(len(saved[-1]), -1) if grad.dim() == 1 else grad
        if len(ctx.steps) > len(ctx.layers):
            grad = through(ctx.steps[-1].back, grad)
        for i in reversed(range(len(ctx.layers))):
            (activation, linear), first = ctx.layers[i], ctx.products_first[i]
            back = ctx.steps[i].back if ctx.steps[i] is not None else ()
            h, weight, out = saved[3 * i : 3 * i + 3]
            room = torch.empty_like(out) if i + 1 == len(ctx.layers) else grad  # the first gradient is another's
            grad = _ACTIVATIONS[activation][1](grad, out, room).contiguous()
            sizes = None if ctx.steps[i] is None else ctx.steps[i].sizes
            gradients.append(grad.sum(0) if sizes is None else sizes @ grad)
            if first:
                grad = through(back, grad)
            if grad.size(1) < NARROW or linear:
                gradients.append(torch.mm(grad.T, h) if linear else torch.mm(grad.T, h).T)
            else:
                gradients.append(torch.mm(h.T, grad))
            if not i and not ctx.needs_input_grad[0]:
                return None, None, None, None, *reversed(gradients)
            grad = product(grad, weight if linear else weight.T)
            if not first:
                grad = through(back, grad)
        return grad, None, None, None, *reversed(gradients)


def chain(
    h: Tensor,
    layers: Sequence[Layer],
    parameters: Sequence[Tensor],
    steps: Sequence[Step | None] | None = None,
    flat: bool = False,
) -> Tensor:
    """H ↦ σ(A H W + b) for one layer after the other; `parameters` are W, b of the first, W, b of the second, …

    h [n, p], A [m, n] of its step, or none, W [p, q], b [q] → [m, q]. A product with A comes behind that with W where
    what it is made from has fewer numbers than what it would make. A step more than there are layers is a product with
    A alone. `flat` gives [m · q].
    """
    steps = [None] * len(layers) if steps is None else steps
    fused = fast(h, *parameters) and all(layer.activation in ("relu", "none") for layer in layers)
    kind = FusedChain if fused and all(each.is_contiguous() for each in parameters) else _Chain
    return apply(kind, h.contiguous(), layers, steps, flat, *parameters)


def activate(z: Tensor, activation: str) -> Tensor:
    """σ(z), with a tape of its own; ReLU in place, so z must be a fresh product that nothing else needs."""
    functions = {"relu": torch.relu_, "tanh": torch.tanh, "elu": functional.elu, "none": lambda z: z}
    out: Tensor = functions[activation](z)
    return out
