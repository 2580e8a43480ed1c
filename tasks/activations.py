"""The activations by name."""

from torch import nn

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "elu": nn.ELU, "none": nn.Identity}


def activation_of(name: str) -> nn.Module:
    return ACTIVATIONS[name]()
