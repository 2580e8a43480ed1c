import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import BatchNorm, GCNConv, LayerNorm

from permlab.datasets.store import GraphStore
from permlab.tasks.backbones import Shape, build_backbone
from permlab.tasks.errors import BackboneError
from permlab.tasks.gcn import GCN
from permlab.tasks.norms import NORMS, norm_of
from permlab.tasks.pyg import from_pyg, to_pyg


def test_the_names_are_pyg_s_classes() -> None:
    kinds = {name: type(norm_of(name, 4)) for name in ("none", *NORMS)}
    assert kinds == {"none": nn.Identity, "batch": BatchNorm, "layer": LayerNorm}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("bias", [True, False])
def test_the_gcn_agrees_with_pyg_s_layers_and_norms(large: GraphStore, name: str, bias: bool) -> None:
    """Convolution, norm, σ; the last layer has no norm."""
    torch.manual_seed(0)
    gamma = GCN(len(large.manifest.feature_names), 6, 3, norm=name, bias=bias).double()
    batch = from_pyg(to_pyg(large, np.arange(9)))
    h = batch.x.double()
    for i, weight in enumerate(gamma.weights):
        conv = GCNConv(*weight.shape, bias=bias).double()
        conv.lin.weight.data = weight.detach().T.clone()
        h = conv(h, batch.edge_index)
        if i < 2:
            norm = {"batch": BatchNorm(6), "layer": LayerNorm(6, mode="node")}[name].double()
            h = norm(h).relu()
    torch.testing.assert_close(gamma(batch), h, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("backbone", ["gcn", "gin", "sage", "gat", "mlp"])
@pytest.mark.parametrize("name", NORMS)
def test_in_evaluation_a_graph_does_not_see_the_others_of_its_batch(
    large: GraphStore, backbone: str, name: str
) -> None:
    torch.manual_seed(0)
    gamma = build_backbone(backbone, Shape(len(large.manifest.feature_names), 0, 3, hidden=6, norm=name)).double()
    assert any(isinstance(part, NORMS[name][0]) for part in gamma.modules())
    gamma(large.batch(np.arange(30)))  # the running statistics of batch norms
    gamma.eval()
    alone = torch.cat([gamma(large.batch(np.array([graph]))) for graph in range(5)])
    torch.testing.assert_close(gamma(large.batch(np.arange(5))), alone)


def test_a_batch_of_one_node_trains() -> None:
    assert norm_of("batch", 3).train()(torch.ones(1, 3)).isfinite().all()


class Bare(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.layer = nn.Linear(in_channels, out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


@pytest.mark.parametrize(("setting", "value"), [("norm", "batch"), ("bias", False)])
def test_a_backbone_that_cannot_have_it_is_refused(setting: str, value: object) -> None:
    with pytest.raises(BackboneError, match=f"Bare takes no {setting}; leave model.{setting} out"):
        build_backbone(Bare, Shape(3, 0, 2, **{setting: value}))
