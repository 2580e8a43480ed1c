"""Initial weights of Γ and ζ, by name. Weights W [out, in], biases b [out] or None; a layer is x ↦ W x + b."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch_geometric.nn.dense import Linear

from permlab.tasks.errors import BackboneError
from permlab.tasks.gcn import GCN
from permlab.tasks.model import Head

Layer = tuple[Tensor, Tensor | None]


def glorot(weight: Tensor, bias: Tensor | None) -> None:
    """W ~ U(±√(6/(in + out))), b = 0, as Keras (Glorot and Bengio 2010)."""
    nn.init.xavier_uniform_(weight)
    _zero(bias)


def he(weight: Tensor, bias: Tensor | None) -> None:
    """W ~ N(0, 2/in), b = 0 (He and others 2015)."""
    nn.init.kaiming_normal_(weight, nonlinearity="relu")
    _zero(bias)


def normal(weight: Tensor, bias: Tensor | None) -> None:
    """W ~ N(0, 0.05²), b = 0."""
    nn.init.normal_(weight, std=0.05)
    _zero(bias)


def uniform(weight: Tensor, bias: Tensor | None) -> None:
    """W, b ~ U(±1/√in), as torch's nn.Linear."""
    _uniform(weight, bias, weight.size(1))


def kipf(weight: Tensor, bias: Tensor | None) -> None:
    """W, b ~ U(±1/√out), as in Kipf's code of the GCN (github.com/tkipf/pygcn)."""
    _uniform(weight, bias, weight.size(0))


# For the layers of Γ and of ζ
INITIAL: dict[str, tuple[Callable[[Tensor, Tensor | None], None], Callable[[Tensor, Tensor | None], None]]] = {
    "glorot": (glorot, glorot),
    "he": (he, he),
    "normal": (normal, normal),
    "uniform": (uniform, uniform),
    "kipf": (kipf, uniform),
}


@torch.no_grad()
def draw_weights(name: str, backbone: nn.Module, head: Head) -> None:
    """Draw the weights of all dense layers again; other weights, such as those of norms, stay."""
    of_gamma, of_zeta = INITIAL[name]
    inside = list(_layers(backbone))
    if not inside:
        raise BackboneError(
            f"model.init={name} draws dense layers, and {type(backbone).__name__} has none; leave it out"
        )
    for layer in inside:
        of_gamma(*layer)
    for layer in _layers(head):
        of_zeta(*layer)


def _layers(module: nn.Module) -> Iterator[Layer]:
    for part in module.modules():
        if isinstance(part, GCN):
            biases = [*part.biases] or [None] * len(part.weights)
            yield from ((weight.T, bias) for weight, bias in zip(part.weights, biases, strict=True))
        elif isinstance(part, nn.Linear | Linear):
            yield part.weight, part.bias


def _uniform(weight: Tensor, bias: Tensor | None, channels: int) -> None:
    bound = channels**-0.5
    for each in (weight, bias):
        if each is not None:
            nn.init.uniform_(each, -bound, bound)


def _zero(bias: Tensor | None) -> None:
    if bias is not None:
        nn.init.zeros_(bias)
