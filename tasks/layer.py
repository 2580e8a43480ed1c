"""Chains of links, as one step of the tape: layers σ(A H W + b), with a sum over neighbours A or without, and more."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from permlab.readouts.gaussian import Gaussian
from permlab.readouts.products import NARROW, fast, product
from permlab.readouts.tape import apply
from permlab.tasks.fused import FusedChain, FusedLoss
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


class Links(NamedTuple):
    """A chain before it is computed: `h` is what goes in, `parameters` are W, b of the first layer, of the second, …

    A link without a layer is its step alone: a product with A, or a sum of kernels, which only `fusable` chains have.
    """

    h: Tensor  # [n, p]
    layers: list[Layer | None]
    parameters: list[Tensor]
    steps: list[Step | Gaussian | None]

    def then(self, layers: Sequence[Layer | None], parameters: Sequence[Tensor], steps: Sequence[Any]) -> "Links":
        """These links, and more behind them."""
        return Links(self.h, [*self.layers, *layers], [*self.parameters, *parameters], [*self.steps, *steps])

    @property
    def fusable(self) -> bool:
        """Whether one compiled call can take them."""
        if not fast(self.h, *self.parameters):
            return False
        plain = all(layer is None or layer.activation in ("relu", "none") for layer in self.layers)
        return plain and all(each.is_contiguous() for each in self.parameters)


class _Chain(torch.autograd.Function):
    """What autograd would do in six steps a layer."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, layers: Any, steps: Any, flat: bool, *parameters: Tensor) -> Tensor:
        saved: list[Tensor | None] = []  # the input of every layer's product, weight and output
        products_first, own = [], iter(parameters)
        for layer, step in zip(layers, steps, strict=True):
            first = False
            if layer is None:
                h = step.forth(h)
                saved += (None, None, None)
            else:
                weight, bias = next(own), next(own)
                w = weight.T if layer.linear else weight
                first = step is not None and h.size(0) * w.size(1) < (len(step.forth.ptr) - 1) * w.size(0)
                if step is not None and not first:
                    h = step.forth(h)
                bias = bias if step is None or step.sizes is None else step.sizes[:, None] * bias
                if step is not None and first:
                    z = step.forth(product(h, w)).add_(bias)
                else:
                    z = product(h, w).add_(bias) if 1 < w.size(1) < NARROW else torch.addmm(bias, h, w)
                saved += (h, weight)
                h = _ACTIVATIONS[layer.activation][0](z)
                saved.append(h)
            products_first.append(first)
        ctx.save_for_backward(*saved)
        ctx.layers, ctx.steps, ctx.products_first, ctx.shape = layers, steps, products_first, h.shape
        return h.view(-1) if flat else h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        saved, mine = ctx.saved_tensors, False  # the first gradient is another's
        gradients: list[Tensor] = []  # from the last parameter to the first
        grad = grad.view(ctx.shape)
        for i in reversed(range(len(ctx.layers))):
            layer, first = ctx.layers[i], ctx.products_first[i]
            back = ctx.steps[i].back if ctx.steps[i] is not None else ()
            if layer is None:
                grad, mine = through(back, grad), True
                continue
            h, weight, out = saved[3 * i : 3 * i + 3]
            room, mine = grad if mine else torch.empty_like(out), True
            grad = _ACTIVATIONS[layer.activation][1](grad, out, room).contiguous()
            sizes = None if ctx.steps[i] is None else ctx.steps[i].sizes
            gradients.append(grad.sum(0) if sizes is None else sizes @ grad)
            if first:
                grad = through(back, grad)
            if grad.size(1) < NARROW or layer.linear:
                gradients.append(torch.mm(grad.T, h) if layer.linear else torch.mm(grad.T, h).T)
            else:
                gradients.append(torch.mm(h.T, grad))
            if not i and not ctx.needs_input_grad[0]:
                return None, None, None, None, *reversed(gradients)
            grad = product(grad, weight if layer.linear else weight.T)
            if not first:
                grad = through(back, grad)
        return grad, None, None, None, *reversed(gradients)


def chain(links: Links, flat: bool = False) -> Tensor:
    """H ↦ σ(A H W + b) for one layer after the other: h [n, p], A [m, n] of its step, W [p, q], b [q] → [m, q].

    A product with A comes behind that with W where what it is made from has fewer numbers than what it would make.
    `flat` gives [m · q].
    """
    if not links.layers:
        return links.h
    return fused(links, flat) if links.fusable else _apply(_Chain, links, flat)


def fused(links: Links, flat: bool = False) -> Tensor:
    """A chain that is `fusable`."""
    return _apply(FusedChain, links, flat)


def fused_loss(links: Links, y: Tensor, classes: bool) -> Tensor:
    """The cross entropy, or the square error, of a `fusable` chain that ends in a number a graph; see `losses.py`."""
    h, layers, parameters, steps = links
    return apply(FusedLoss, h.contiguous(), layers, steps, y, classes, *parameters)


def _apply(kind: Any, links: Links, flat: bool) -> Tensor:
    h, layers, parameters, steps = links
    return apply(kind, h.contiguous(), layers, steps, flat, *parameters)


def activate(z: Tensor, activation: str) -> Tensor:
    """σ(z), with a tape of its own."""
    functions = {"relu": torch.relu, "tanh": torch.tanh, "elu": functional.elu, "none": lambda z: z}
    out: Tensor = functions[activation](z)
    return out
