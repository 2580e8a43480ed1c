"""What GraphModel promises for every readout: the numbers of the formulas, written out with dense matrices."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn.aggr import MeanAggregation, MultiAggregation

from permlab.datasets.batch import GraphBatch
from permlab.datasets.store import GraphStore
from permlab.tasks.gcn import GCN
from permlab.tasks.model import GraphModel, Head, Standardise, standardise_on
from permlab.tasks.pyg import from_pyg
from permlab.tasks.ragged import RaggedLinear
from tests.readouts.cases import CASES, Case, array

N, R = 6, 3  # nodes of the largest graph, features
DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: {"rtol": 1e-3, "atol": 1e-4}, torch.float64: {"rtol": 1e-9, "atol": 1e-9}}


def model_with(readout: nn.Module, d: int, layers: int = 3, dropout: float = 0.0) -> GraphModel:
    torch.manual_seed(0)
    backbone = GCN(R, 5, d, activation="tanh", dropout=dropout)
    for bias in backbone.biases:
        nn.init.normal_(bias)
    return GraphModel(backbone, readout, Head(readout, 7, layers, "elu", dropout))


def model_of(case: Case, layers: int = 3) -> GraphModel:
    return model_with(case.make(case.d, N), case.d, layers)


def hand_made(sizes: tuple[int, ...]) -> GraphBatch:
    """Rings of these sizes, a node of size 1 alone, with random features."""
    generator, graphs = torch.Generator().manual_seed(1), []
    for size in sizes:
        ring = torch.stack([torch.arange(size), (torch.arange(size) + 1) % max(size, 1)])
        edges = torch.cat([ring, ring.flip(0)], dim=1)[:, : 2 * size if size > 1 else 0]
        x = torch.randn(size, R, generator=generator)
        graphs.append(Data(x=x, edge_index=edges, y=torch.zeros(1), num_nodes=size))
    return from_pyg(graphs)


def dense_gcn(gcn: GCN, x: np.ndarray, edges: np.ndarray) -> np.ndarray:
    a = np.eye(len(x))
    a[edges[1], edges[0]] = 1
    scale = np.diag(a.sum(1) ** -0.5)
    h = x
    for i, (weight, bias) in enumerate(zip(gcn.weights, gcn.biases, strict=True)):
        h = scale @ a @ scale @ (np.tanh(h) if i else h) @ array(weight) + array(bias)
    return h


def dense_head(head: Head, z: np.ndarray) -> float:
    for i, layer in enumerate((head.first, *head.inner, head.last)):
        z = array(layer.weight) @ (np.where(z > 0, z, np.expm1(np.minimum(z, 0))) if i else z) + array(layer.bias)
    return float(z[0])


def written_out(case: Case, model: GraphModel, batch: GraphBatch) -> Tensor:
    """Graph by graph: dense graph convolutions, the readout's formula on N rows, dense layers on its whole output."""
    predictions = []
    for first, last in pairwise(batch.ptr.tolist()):
        inside = (batch.edge_index[0] >= first) & (batch.edge_index[0] < last)
        edges = batch.edge_index[:, inside].numpy() - first
        embedded = dense_gcn(model.backbone, array(batch.x[first:last]), edges)
        predictions.append(dense_head(model.head, case.formula(model.readout, embedded)))
    return torch.tensor(predictions, dtype=torch.float64)


@pytest.mark.parametrize("case", CASES, ids=str)
class TestContract:
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_its_numbers_are_those_of_the_formulas(self, small: GraphStore, case: Case, dtype: torch.dtype) -> None:
        model, batch = model_of(case).to(dtype), small.batch(np.arange(12))
        predicted, expected = model(batch), written_out(case, model, batch)
        assert predicted.shape == (12,) and predicted.dtype == dtype and expected.std() > 1e-4
        tolerance = 1e-3 if dtype == torch.float32 else 1e-6  # Â and Â·Z are stored in single precision
        torch.testing.assert_close(predicted.double(), expected, rtol=tolerance, atol=tolerance)

    def test_its_gradients_are_those_of_a_dense_head_on_the_padded_vector(self, small: GraphStore, case: Case) -> None:
        model, batch = model_of(case).double(), small.batch(np.arange(12))
        head, weights = model.head, list(model.parameters())
        pooled = model.readout(model.backbone(batch), ptr=batch.ptr)
        z = nn.functional.linear(pooled, head.first.weight, head.first.bias)
        for layer in (*head.inner, head.last):
            z = layer(nn.functional.elu(z))
        direction = torch.randn(12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        ours, theirs = (torch.autograd.grad((out * direction).sum(), weights) for out in (model(batch), z.squeeze(1)))
        assert max(gradient.abs().max() for gradient in ours) > 0.1
        torch.testing.assert_close(ours, theirs)

    def test_only_invariant_readouts_do_not_see_the_order_of_nodes(self, small: GraphStore, case: Case) -> None:
        model = model_of(case).double()
        plain, permuted = (model(small.batch(np.arange(40), seed)) for seed in (None, 3))
        if case.invariant:
            torch.testing.assert_close(plain, permuted, rtol=1e-9, atol=1e-9)
        else:
            assert (plain - permuted).abs().max() > 1e-3

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_a_graph_gets_the_same_number_alone_and_in_a_batch(
        self, small: GraphStore, case: Case, dtype: torch.dtype
    ) -> None:
        model = model_of(case).to(dtype)
        together = model(small.batch(np.arange(20)))
        alone = torch.cat([model(small.batch(np.array([graph]))) for graph in range(20)])
        torch.testing.assert_close(together, alone, **TOLERANCE[dtype])

    @pytest.mark.parametrize("kind", ["stored", "hand-made"])
    def test_a_batch_that_served_inference_can_be_trained_on(self, small: GraphStore, case: Case, kind: str) -> None:
        model, batch = model_of(case), small.batch(np.arange(5)) if kind == "stored" else hand_made((4, 0, 3))
        with torch.inference_mode():
            expected = model(batch)
        out = model(batch)
        out.sum().backward()
        assert torch.equal(out, expected)

    @pytest.mark.parametrize("sizes", [(4, 0, 3), (1,), (0,), (1, 6, 1)], ids=str)
    def test_graphs_of_no_node_or_one(self, case: Case, sizes: tuple[int, ...]) -> None:
        model, batch = model_of(case).double(), hand_made(sizes)
        out = model(batch)
        torch.testing.assert_close(out, written_out(case, model, batch), rtol=1e-6, atol=1e-6)
        out.sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is None or torch.isfinite(parameter.grad).all(), name

    def test_hooks_fire_on_every_module(self, small: GraphStore, case: Case) -> None:
        model, seen = model_of(case), set()
        parts = dict(model.named_modules())
        containers = {name for name, part in parts.items() if isinstance(part, nn.ModuleList | nn.ParameterList)}
        inside_pyg = {name for name in parts if name.startswith("readout.aggregation.")}  # PyG decides what it calls
        for name, part in parts.items():
            part.register_forward_hook(lambda *given, name=name: seen.add(name))
        model(small.batch(np.arange(3)))
        assert {"backbone", "readout", "head", "head.first", "head.inner.0", "head.inner.1", "head.last"} <= seen
        assert seen - inside_pyg == set(parts) - containers - inside_pyg

    def test_a_hook_on_the_readout_replaces_its_output(self, small: GraphStore, case: Case) -> None:
        model, batch = model_of(case), small.batch(np.arange(3))
        before = model(batch)
        model.readout.register_forward_hook(lambda module, given, out: torch.zeros_like(out))
        after = model(batch)
        assert after.max() - after.min() < 1e-6 < (after - before).abs().max()


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_a_head_has_as_many_hidden_layers_as_asked(small: GraphStore, layers: int) -> None:
    case, batch = CASES[0], small.batch(np.arange(5))
    model = model_of(case, layers).double()
    assert len(model.head.inner) == layers - 1
    torch.testing.assert_close(model(batch), written_out(case, model, batch), rtol=1e-6, atol=1e-6)


def mean_with_a_size() -> nn.Module:
    readout = MeanAggregation()
    readout.out_channels = 2
    return readout


class Wrapped(nn.Module):
    """Not an Aggregation, but called like one."""

    out_channels = 4

    def __init__(self) -> None:
        super().__init__()
        self.inner = MultiAggregation(["mean", "max"])

    def forward(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        return self.inner(x, index, dim_size=dim_size)


@pytest.mark.parametrize("make", [mean_with_a_size, Wrapped])
def test_an_aggregation_of_pyg_is_a_readout(small: GraphStore, make: Callable[[], nn.Module]) -> None:
    model, batch = model_with(make(), 2).double(), small.batch(np.arange(12))
    x, head = model.backbone(batch), model.head
    parts = [x[batch.batch == graph] for graph in range(12)]
    pooled = [torch.cat([part.mean(0), part.max(0).values])[: model.readout.out_channels] for part in parts]
    expected = torch.tensor([dense_head(head, array(vector)) for vector in pooled], dtype=torch.float64)
    torch.testing.assert_close(model(batch), expected)
    with_an_empty_graph = model(hand_made((3, 0)))
    assert with_an_empty_graph.shape == (2,) and torch.isfinite(with_an_empty_graph).all()
    model(batch).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        pytest.param(case, dtype, id=f"{case}-{dtype}")
        for case in CASES
        for dtype in (torch.bfloat16, torch.float16)
        if (case.name, dtype) != ("lstm", torch.float16)  # torch has no such LSTM on the CPU
    ],
)
def test_mixed_precision_is_close_to_single(small: GraphStore, case: Case, dtype: torch.dtype) -> None:
    model, batch = model_of(case), small.batch(np.arange(12))
    expected = model(batch)
    with torch.autocast("cpu", dtype):
        predicted = model(batch)
    torch.testing.assert_close(predicted.float(), expected, rtol=0.1, atol=0.1)
    predicted.float().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_first_layer_is_ragged_where_the_rows_are_the_whole_output(case: Case) -> None:
    assert isinstance(model_of(case).head.first, RaggedLinear) == case.has_rows


def test_dropout_acts_in_training_alone(small: GraphStore) -> None:
    case, batch = CASES[0], small.batch(np.arange(12))
    model = model_with(case.make(case.d, N), case.d, dropout=0.5)
    assert not torch.equal(model(batch), model(batch))
    model.eval()
    assert torch.equal(model(batch), model(batch))
    assert torch.allclose(model(batch), model_of(case)(batch))  # the same weights


@pytest.mark.parametrize("case", CASES[:4], ids=str)
def test_a_head_of_several_outputs_gives_a_row_per_graph(small: GraphStore, case: Case) -> None:
    """Each of them is what a head of one output with its weights gives."""
    model, batch = model_of(case).double(), small.batch(np.arange(12))
    readout = case.make(case.d, N)
    torch.manual_seed(0)
    several = GraphModel(model.backbone, model.readout, Head(readout, 7, 3, "elu", outputs=3)).double()
    predictions = several(batch)
    assert predictions.shape == (12, 3)
    for output in range(3):
        state = several.head.state_dict()
        state |= {name: state[name][output : output + 1] for name in ("last.weight", "last.bias")}
        model.head.load_state_dict(state)
        torch.testing.assert_close(predictions[:, output], model(batch))


class TestStandardised:
    def test_mean_and_deviation_are_those_of_the_targets_that_are_present(self) -> None:
        y = 5 + 3 * np.random.default_rng(0).standard_normal((50, 3))
        y[:, 2] = 7
        y[::4, 0] = np.nan
        mean, std = standardise_on(torch.from_numpy(y))
        np.testing.assert_allclose(mean, np.nanmean(y, axis=0))
        np.testing.assert_allclose(std, [np.nanstd(y[:, 0]), y[:, 1].std(), 1])
        mean, std = standardise_on(torch.from_numpy(y[:, 1]).float())
        assert mean.shape == std.shape == () and std.item() == pytest.approx(y[:, 1].std(), rel=1e-6)

    @pytest.mark.parametrize(("mean", "std"), [(4.0, 3.0), (torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))])
    def test_predictions_are_in_the_units_of_the_data_and_the_weights_say_so(
        self, small: GraphStore, mean: Tensor | float, std: Tensor | float
    ) -> None:
        readout, batch = CASES[0].make(CASES[0].d, N), small.batch(np.arange(9))
        outputs = 1 if isinstance(mean, float) else 2
        head = Head(readout, 7, outputs=outputs)
        plain = GraphModel(GCN(R, 5, CASES[0].d), readout, head)
        scaled = GraphModel(plain.backbone, readout, head, Standardise(mean, std))
        torch.testing.assert_close(scaled(batch), mean + std * plain(batch))
        assert set(scaled.state_dict()) == set(plain.state_dict()) | {"scale.mean", "scale.std"}
        again = GraphModel(
            GCN(R, 5, CASES[0].d), readout, Head(readout, 7, outputs=outputs), Standardise(mean * 0, std)
        )
        again.load_state_dict(scaled.state_dict())
        assert torch.equal(again(batch), scaled(batch))
        assert not any(name.startswith("scale") for name, _ in scaled.named_parameters())
