"""Γ by name: modules that map a GraphBatch to node embeddings [n, d].

`gcn` is the paper's. The others are PyG's own models; `adapt` makes a backbone of any PyG module.
"""

from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINEConv
from torch_geometric.nn.models import GAT, GIN, MLP, PNA, GraphSAGE
from torch_geometric.nn.models.basic_gnn import BasicGNN

from permlab.datasets.batch import GraphBatch
from permlab.readouts.construct import dry_run, made_by_name
from permlab.readouts.errors import said
from permlab.tasks.activations import activation_of
from permlab.tasks.errors import BackboneError
from permlab.tasks.gcn import GCN
from permlab.tasks.norms import NORMS


@dataclass(frozen=True)
class Shape:
    """What a backbone is built for: r node features, s edge features, d outputs, and the model's settings."""

    in_channels: int
    edge_channels: int
    out_channels: int
    hidden: int = 50
    layers: int = 3
    activation: str = "relu"
    last_activation: str = "none"
    dropout: float = 0.0
    norm: str = "none"
    bias: bool = True
    degrees: tuple[int, ...] = ()  # how many nodes of the data set have 0, 1, 2, … neighbours


class GINE(BasicGNN):
    """GIN with edge features: h_i ↦ MLP((1 + ε) h_i + Σ_j relu(h_j + W e_ij)) (Hu et al. 2020)."""

    supports_edge_weight = False
    supports_edge_attr = True

    def init_conv(self, in_channels: int, out_channels: int, **kwargs: Any) -> GINEConv:
        return GINEConv(MLP([in_channels, out_channels, out_channels], norm=None), **kwargs)


class NodeMLP(nn.Module):
    """The same MLP for every node; edges are ignored. The baseline that a graph network must beat."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        dropout: float = 0.0,
        act: Any = "relu",
        norm: str | None = None,
        norm_kwargs: dict[str, Any] | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.layers = MLP(widths, dropout=dropout, act=act, norm=norm, norm_kwargs=norm_kwargs, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        embedded: Tensor = self.layers(x)
        return embedded


class Adapted(nn.Module):
    """A PyG module with `forward(x, edge_index[, edge_attr])` as a backbone: GraphBatch → σ(module(…)) [n, d]."""

    def __init__(self, module: nn.Module, last_activation: str = "none") -> None:
        super().__init__()
        self.module, self.last_activation = module, activation_of(last_activation)
        self.register_buffer(
            "like", torch.empty(0), persistent=False
        )  # follows the model's dtype, if nothing else does
        arguments = signature(module.forward).parameters
        self.takes_edges = "edge_index" in arguments
        self.takes_attributes = "edge_attr" in arguments and getattr(module, "supports_edge_attr", True)

    like: Tensor

    def forward(self, batch: GraphBatch) -> Tensor:
        dtype = next((weight.dtype for weight in self.parameters()), self.like.dtype)
        arguments: dict[str, Tensor] = {}
        if self.takes_edges:
            arguments["edge_index"] = batch.edge_index
        if self.takes_attributes and batch.edge_attr is not None:
            arguments["edge_attr"] = batch.edge_attr.to(dtype)
        embedded: Tensor = self.last_activation(self.module(batch.x.to(dtype), **arguments))
        return embedded


BACKBONES: dict[str, type[nn.Module]] = {
    "gcn": GCN, "gin": GIN, "sage": GraphSAGE, "gat": GAT, "pna": PNA, "gine": GINE, "mlp": NodeMLP,
}  # fmt: skip
_SCALED = {"aggregators": ["mean", "min", "max", "std"], "scalers": ["identity", "amplification", "attenuation"]}


def build_backbone(backbone: str | type[nn.Module] | nn.Module, shape: Shape, /, **options: Any) -> nn.Module:
    """Γ for this shape: a built-in name, a class, or a copy of an object. A module whose `forward` takes a `batch`
    gets the GraphBatch; any other is adapted.
    """
    name = backbone if isinstance(backbone, str) else getattr(backbone, "__name__", type(backbone).__name__)
    made_by = BACKBONES[backbone] if isinstance(backbone, str) else backbone
    if made_by is GINE and not shape.edge_channels:
        raise BackboneError("gine needs edge features, and this data set has none; choose gin")
    asked = _asked(name, made_by, shape)
    if isinstance(made_by, type):
        options = _needed_by_pyg(made_by, shape) | options
    module = made_by_name(name, made_by, options, BackboneError, usual=_known(shape) | asked)
    if not isinstance(module, nn.Module):
        raise BackboneError(f"{name} is a {type(module).__name__}, not a torch.nn.Module")
    if next(iter(signature(module.forward).parameters), "") != "batch":
        module = Adapted(module, shape.last_activation)
    if made_by is not GCN:
        _check(name, module, shape)
    return module


def _needed_by_pyg(made_by: type[nn.Module], shape: Shape) -> dict[str, Any]:
    """What PyG's models pass on to their layers, so that no argument of their constructors has its name."""
    needed: dict[str, Any] = {}
    if issubclass(made_by, BasicGNN) and getattr(made_by, "supports_edge_attr", False) and shape.edge_channels:
        needed["edge_dim"] = shape.edge_channels
    if issubclass(made_by, PNA):
        needed |= _SCALED | {"deg": _degrees(shape)}
    return needed


def _known(shape: Shape) -> dict[str, Any]:
    """The usual names of a constructor's arguments."""
    return {
        "in_channels": shape.in_channels,
        "hidden_channels": shape.hidden,
        "out_channels": shape.out_channels,
        "num_layers": shape.layers,
        "layers": shape.layers,
        "dropout": shape.dropout,
        "act": activation_of(shape.activation),
        "activation": shape.activation,
        "last_activation": shape.last_activation,
        "edge_dim": shape.edge_channels or None,
        "deg": _degrees(shape),
    }


def _asked(name: str, made_by: Any, shape: Shape) -> dict[str, Any]:
    """Norm and bias, if they are not the defaults; the constructor must accept them."""
    asked: dict[str, Any] = ({} if shape.norm == "none" else {"norm": shape.norm}) | (
        {} if shape.bias else {"bias": False}
    )
    taken = signature(made_by).parameters if asked and isinstance(made_by, type) else {}
    if "norm" in asked and "norm_kwargs" in taken:  # PyG's models find the class by its name
        norm, options = NORMS[shape.norm]
        asked |= {"norm": norm.__name__, "norm_kwargs": options}
    if missing := [setting for setting in asked if setting not in taken]:
        raise BackboneError(f"{name} takes no {missing[0]}; leave model.{missing[0]} out, or choose gcn")
    return asked


def _degrees(shape: Shape) -> Tensor:
    return torch.tensor(shape.degrees or (0, 1), dtype=torch.long)


def _check(name: str, backbone: nn.Module, shape: Shape) -> None:
    """Embed two small graphs: what the module does wrong is one clear line here."""
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    attributes = torch.zeros(4, shape.edge_channels) if shape.edge_channels else None
    with dry_run(backbone):
        # positive, as counts and one-hot labels are
        x = torch.rand(5, shape.in_channels, generator=torch.Generator().manual_seed(0))
        batch = GraphBatch(x, edge_index, torch.tensor([0, 2, 5]), torch.zeros(2), attributes)
        try:
            embedded = backbone(batch)
        except (Exception, SystemExit) as error:
            raise BackboneError(
                f"{name} fails on two small graphs, x [5, {shape.in_channels}]: {said(error)}"
            ) from error
    given = list(embedded.shape) if isinstance(embedded, Tensor) else type(embedded).__name__
    if given != [5, shape.out_channels]:
        raise BackboneError(f"{name} gives {given} for 5 nodes; a backbone gives [5, {shape.out_channels}]: d numbers")
    if not embedded.is_floating_point() or not embedded.isfinite().all():
        raise BackboneError(f"{name} gives {embedded.dtype} values that are not all finite for finite x")
