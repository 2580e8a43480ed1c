"""Normalisation between the layers of Γ: PyG's classes by name."""

from typing import Any

from torch import nn
from torch_geometric.nn import BatchNorm, LayerNorm

# "layer" is over the channels of one node. PyG's own default, over all nodes of a graph, needs to know the graphs.
NORMS: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    "batch": (BatchNorm, {"allow_single_element": True}),
    "layer": (LayerNorm, {"mode": "node"}),
}


def norm_of(name: str, channels: int) -> nn.Module:
    """[n, channels] → [n, channels]; `none` is the identity."""
    if name == "none":
        return nn.Identity()
    norm, options = NORMS[name]
    return norm(channels, **options)
