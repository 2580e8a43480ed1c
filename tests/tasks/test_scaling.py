import numpy as np
import pytest
import torch

from permlab.datasets.batch import GraphBatch
from permlab.datasets.store import GraphStore
from permlab.readouts.catalogue import build
from permlab.tasks.backbones import Shape, build_backbone
from permlab.tasks.gcn import GCN
from permlab.tasks.model import GraphModel, Head
from permlab.tasks.pyg import from_pyg, to_pyg
from permlab.tasks.scaling import SCALINGS, Blocks, ScaleFeatures, scaling_of

GRAPHS = np.arange(40)


@pytest.fixture
def raw(large: GraphStore) -> np.ndarray:
    return large.raw_features(np.arange(large.node_ptr[40]))


@pytest.fixture
def blocks(raw: np.ndarray) -> Blocks:
    return lambda: np.array_split(raw, 7)


def test_standard_features_have_mean_0_and_deviation_1(blocks: Blocks, large: GraphStore) -> None:
    x = scaling_of("standard", blocks)(large.batch(GRAPHS)).x.double()
    torch.testing.assert_close(x.mean(0), torch.zeros(x.size(1)).double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std(0, correction=0), torch.ones(x.size(1)).double(), atol=1e-5, rtol=0)


def test_minmax_features_fill_0_to_1(blocks: Blocks, large: GraphStore) -> None:
    x = scaling_of("minmax", blocks)(large.batch(GRAPHS)).x
    assert torch.equal(x.amin(0), torch.zeros(x.size(1))) and torch.equal(x.amax(0), torch.ones(x.size(1)))


@pytest.mark.parametrize("name", SCALINGS)
def test_a_constant_column_keeps_its_scale(name: str) -> None:
    scaling = scaling_of(name, lambda: [np.array([[3.0, 1.0], [3.0, 5.0]])])
    assert scaling.width[0] == 1 and scaling.shift[0] == 3 and scaling.width[1] != 1


@pytest.mark.parametrize("name", SCALINGS)
def test_blocks_give_the_statistics_of_the_whole(raw: np.ndarray, blocks: Blocks, name: str) -> None:
    whole, parts = scaling_of(name, lambda: [raw]), scaling_of(name, blocks)
    torch.testing.assert_close((parts.shift, parts.width), (whole.shift, whole.width), atol=0, rtol=1e-6)
    exact = torch.from_numpy(raw.astype(np.float64).std(0) if name == "standard" else np.ptp(raw, axis=0))
    torch.testing.assert_close(parts.width, exact.float(), atol=0, rtol=1e-6)


@pytest.mark.parametrize("offset", [1e4, 1e6])
def test_features_far_from_0_are_scaled_exactly_for_the_gcn_too(offset: float) -> None:
    """(ÂZ − (Â1) shiftᵀ) / width would cancel."""
    random = torch.Generator().manual_seed(0)
    x, ring = offset + torch.randn(30, 2, generator=random), torch.arange(30)
    batch = GraphBatch(x, torch.stack([ring, ring.roll(1)]), torch.tensor([0, 30]), torch.zeros(1))
    scaled = scaling_of("standard", lambda: [x.numpy()])(batch)
    torch.testing.assert_close(scaled.az, (batch.adjacency @ scaled.x.double()).float(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("permutation", [None, 7])
def test_the_scaled_batch_is_that_of_scaled_graphs(blocks: Blocks, large: GraphStore, permutation: int | None) -> None:
    """Also Â·Z, which is stored for the raw features, and with the nodes permuted in the data."""
    scaling, batch = scaling_of("standard", blocks).double(), large.batch(GRAPHS, permutation)
    graphs = to_pyg(large, GRAPHS)
    for graph in graphs:
        graph.x = (graph.x.double() - scaling.shift) / scaling.width
    ours, theirs = scaling(batch), from_pyg(graphs)
    gamma = GCN(len(large.manifest.feature_names), 6, 3).double()
    embedded, expected = gamma(ours), gamma(theirs)
    if permutation is not None:
        sums = [
            torch.zeros(len(GRAPHS), 3).double().index_add(0, each.batch, x)
            for each, x in ((ours, embedded), (theirs, expected))
        ]
        embedded, expected = sums
    torch.testing.assert_close(embedded, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["gin", "gat", "mlp"])
def test_every_backbone_sees_scaled_features(blocks: Blocks, large: GraphStore, name: str) -> None:
    torch.manual_seed(0)
    gamma, scaling = (
        build_backbone(name, Shape(len(large.manifest.feature_names), 0, 3, hidden=6)).double(),
        scaling_of("minmax", blocks).double(),
    )
    scaled = scaling(large.batch(GRAPHS))
    graphs = to_pyg(large, GRAPHS)
    for graph in graphs:
        graph.x = (graph.x.double() - scaling.shift) / scaling.width
    torch.testing.assert_close(gamma(scaled), gamma(from_pyg(graphs)))


def test_the_statistics_are_part_of_the_weights(blocks: Blocks, large: GraphStore) -> None:
    readout, r = build("sum", 3, large.manifest.max_nodes), len(large.manifest.feature_names)
    made = [
        GraphModel(GCN(r, 6, 3), readout, Head(readout, 5), features=scaling)
        for scaling in (scaling_of("standard", blocks), ScaleFeatures(torch.zeros(r), torch.ones(r)))
    ]
    made[1].load_state_dict(made[0].state_dict())
    batch = large.batch(GRAPHS)
    assert torch.equal(made[0](batch), made[1](batch))
    assert not list(made[0].features.parameters())
