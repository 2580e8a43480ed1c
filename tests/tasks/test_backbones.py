"""Every backbone: a map from the nodes of a graph to embeddings, which knows neither their order nor the batch."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from permlab.datasets.batch import GraphBatch
from permlab.tasks.backbones import BACKBONES, Shape, build_backbone
from permlab.tasks.errors import BackboneError
from permlab.tasks.pyg import from_pyg

SHAPE = Shape(5, 2, 4, hidden=8, degrees=(1, 6, 6, 3))
OPTIONS = {"gat": {"heads": 2}, "gin": {"train_eps": True}}
each = pytest.mark.parametrize("name", BACKBONES)


def graph(nodes: int, seed: int = 0) -> Data:
    """Random edges, both ways, with features; the last node has none."""
    random = torch.Generator().manual_seed(100 * nodes + seed)
    pairs = torch.rand(nodes, nodes, generator=random).triu(1)
    pairs[:, -1] = 0
    one_way = (pairs > 0.5).nonzero().T
    attributes = torch.randn(one_way.size(1), 2, generator=random, dtype=torch.float64)
    return Data(
        x=torch.randn(nodes, 5, generator=random, dtype=torch.float64),
        edge_index=torch.cat([one_way, one_way.flip(0)], dim=1),
        edge_attr=torch.cat([attributes, attributes]),
        y=torch.zeros(1),
    )


def backbone(name: str, shape: Shape = SHAPE) -> nn.Module:
    torch.manual_seed(0)
    return build_backbone(name, shape, **OPTIONS.get(name, {})).double().eval()


def permuted(data: Data, order: Tensor) -> Data:
    """Node `order[i]` becomes node i."""
    return Data(x=data.x[order], edge_index=order.argsort()[data.edge_index], edge_attr=data.edge_attr, y=data.y)


@each
def test_shape_and_gradient(name: str) -> None:
    gamma, batch = backbone(name), from_pyg([graph(6), graph(1), graph(4)])
    embedded = gamma(batch)
    assert embedded.shape == (11, 4) and embedded.dtype == torch.float64 and embedded.isfinite().all()
    embedded.square().sum().backward()
    for weight, parameter in gamma.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), weight
    assert sum(float(parameter.grad.abs().sum()) > 0 for parameter in gamma.parameters()) > 1


@each
def test_single_precision_is_the_rounding_of_double(name: str) -> None:
    gamma, batch = backbone(name), from_pyg([graph(6), graph(4)])
    exact = gamma(batch)
    single = gamma.float()(from_pyg([_single(graph(6)), _single(graph(4))]))
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), exact, atol=1e-4, rtol=1e-4)


def _single(data: Data) -> Data:
    return Data(x=data.x.float(), edge_index=data.edge_index, edge_attr=data.edge_attr.float(), y=data.y)


@each
def test_permuted_nodes_give_permuted_embeddings(name: str) -> None:
    gamma, data = backbone(name), graph(7)
    order = torch.randperm(7, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(gamma(from_pyg([permuted(data, order)])), gamma(from_pyg([data]))[order])


@each
def test_alone_as_in_a_batch(name: str) -> None:
    gamma, graphs = backbone(name), [graph(6), graph(1), graph(4)]
    alone = torch.cat([gamma(from_pyg([data])) for data in graphs])
    torch.testing.assert_close(gamma(from_pyg(graphs)), alone)


def changes(name: str, shape: Shape, **other: Tensor) -> bool:
    """Whether other edges or edge features change the embeddings."""
    gamma, data = backbone(name, shape), graph(6)
    changed = data.clone()
    for key, value in other.items():
        changed[key] = value
    return not torch.allclose(gamma(from_pyg([data])), gamma(from_pyg([changed])))


@each
def test_who_uses_edges_and_their_features(name: str) -> None:
    data = graph(6)
    assert changes(name, SHAPE, edge_attr=data.edge_attr + 1) == (name in ("gat", "pna", "gine"))
    fewer = {"edge_index": data.edge_index[:, :0], "edge_attr": data.edge_attr[:0]}
    assert changes(name, SHAPE, **fewer) == (name != "mlp")


@pytest.mark.parametrize("name", [name for name in BACKBONES if name != "gine"])
def test_edge_features_are_not_needed(name: str) -> None:
    bare = graph(6)
    del bare.edge_attr
    assert backbone(name, Shape(5, 0, 4, hidden=8, degrees=(1, 2, 3)))(from_pyg([bare])).shape == (6, 4)


@each
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_layers_and_the_last_activation(name: str, layers: int) -> None:
    shape = Shape(5, 2, 4, hidden=8, layers=layers, last_activation="relu", degrees=(1, 6, 6, 3))
    embedded = backbone(name, shape)(from_pyg([graph(6)]))
    assert embedded.shape == (6, 4) and (embedded >= 0).all()


@each
def test_the_activation_and_dropout_of_the_settings_count(name: str) -> None:
    batch = from_pyg([graph(6)])
    relu, tanh = (backbone(name, replace(SHAPE, activation=activation))(batch) for activation in ("relu", "tanh"))
    assert not torch.allclose(relu, tanh)
    dropping = backbone(name, replace(SHAPE, dropout=0.5))
    torch.testing.assert_close(dropping(batch), relu)
    assert not torch.allclose(dropping.train()(batch), relu)


@each
def test_equal_seeds_give_equal_weights(name: str) -> None:
    for left, right in zip(backbone(name).parameters(), backbone(name).parameters(), strict=True):
        assert torch.equal(left, right)


class Batched(nn.Module):
    """A backbone that takes the batch itself."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.layer = nn.Linear(in_channels, out_channels)

    def forward(self, batch: GraphBatch) -> Tensor:
        embedded: Tensor = self.layer(batch.x.to(self.layer.weight.dtype))
        return embedded / len(batch.ptr)


def test_a_module_may_take_the_batch_itself() -> None:
    assert isinstance(build_backbone(Batched, SHAPE), Batched)


def test_an_object_is_copied() -> None:
    mine = Batched(5, 4)
    copy = build_backbone(mine, SHAPE)
    assert copy is not mine and torch.equal(copy.layer.weight, mine.layer.weight)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("gcn", {"heads": 2}, "gcn has no option 'heads'"),
        ("mlp", {"widths": [3]}, "mlp has no option 'widths'"),
        ("gat", {"heads": 3}, "gat cannot be built"),  # 8 hidden units are not three times anything
        ("gin", {"out_channels": 3}, "[5, 3]"),
        ("gin", {"train_epsilon": True}, "gin cannot be built"),
        ("pna", {"scalers": ["louder"]}, "pna"),
        (Batched(5, 4), {"depth": 2}, "takes no option 'depth'"),
        (Batched(5, 3), {}, "[5, 3]"),
        (Batched(6, 4), {}, "Batched fails"),
        (dict, {}, "dict does not say"),
        (Shape, {"edge_channels": 0, "hidden": 1}, "not a torch.nn.Module"),
    ],
)
def test_wrong_options_are_one_line(name, options: dict, said: str) -> None:
    with pytest.raises(BackboneError) as error:
        build_backbone(name, SHAPE, **options)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_gine_needs_edge_features() -> None:
    with pytest.raises(BackboneError, match="edge features"):
        build_backbone("gine", Shape(5, 0, 4))


def test_a_backbone_without_weights_follows_the_models_precision() -> None:
    """Evaluation is in double precision."""
    module = build_backbone(nn.Identity(), replace(SHAPE, in_channels=SHAPE.out_channels))
    batch = from_pyg([Data(x=torch.ones(3, SHAPE.out_channels), edge_index=torch.zeros(2, 0, dtype=torch.long), y=0.0)])
    assert module(batch).dtype == torch.float32
    assert module.double()(batch).dtype == torch.float64
