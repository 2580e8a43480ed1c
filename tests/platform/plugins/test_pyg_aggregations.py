"""Every aggregation of PyG by its name: it trains for an epoch, or is refused with the reason."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch_geometric.nn.aggr as pyg
from torch import nn

from permlab.datasets.store import GraphStore
from permlab.platform.run.certificates import measure_certificate
from permlab.platform.run.training import Training
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import read_settings
from permlab.readouts.base import sizes_of
from permlab.readouts.errors import ReadoutError
from tests.datasets.stores import build_store

D = 10
DATA = "synthetic,graphs=60,max_nodes=7"
TRAINED: dict[str, int] = {  # the name as a user writes it → m
    "SumAggregation": D,
    "MeanAggregation": D,
    "MaxAggregation": D,
    "MinAggregation": D,
    "MulAggregation": D,
    "VarAggregation": D,
    "StdAggregation": D,
    "SoftmaxAggregation,learn=true": D,
    "PowerMeanAggregation,learn=true": D,
    "MedianAggregation": D,
    "QuantileAggregation,q=0.5": D,
    "QuantileAggregation,q=[0.25,0.75]": 2 * D,
    "MultiAggregation,aggrs=[mean,max]": 2 * D,
    "SortAggregation,k=5": 5 * D,
    "Set2Set,processing_steps=2": 2 * D,
    "GraphMultisetTransformer,k=4": D,
    "SetTransformerAggregation,heads=2": D,
    "DeepSetsAggregation": D,
    "EquilibriumAggregation,num_layers=[8]": D,
    "EquilibriumAggregation,num_layers=[8],out_channels=4": 4,
    "VariancePreservingAggregation": D,
    "LSTMAggregation": D,
    "GRUAggregation,out_channels=6": 6,
    "MLPAggregation,num_layers=1": D,
    "LCMAggregation": D,
    "PatchTransformerAggregation,patch_size=4,hidden_channels=8": D,
}
DEPENDS_ON_ORDER = ("LSTM", "GRU", "MLP", "LCM", "PatchTransformer")
REFUSED = {
    "Aggregation": "one row per graph",  # the base class
    "AttentionalAggregation": "needs gate_nn",  # a module
    "DegreeScalerAggregation,aggr=mean,scaler=identity": "needs deg",  # a tensor
    "QuantileAggregation": "needs q",
    "SortAggregation": "needs k",
}


@pytest.fixture(autouse=True, scope="module")
def single_threaded(one_thread: None) -> None:
    """Small matrices."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    return build_store(DATA, tmp_path_factory.mktemp("store"))


def prepared(store: GraphStore, runs: Path, method: Any) -> Training:
    words = [f"dataset={DATA}", f"d={D}", "model.hidden=8", "model.head_hidden=8", "train.epochs=1", f"runs={runs}"]
    return Training.prepare(read_settings(RunSettings, words, {"method": method}), store)


def trained(store: GraphStore, runs: Path, method: Any) -> tuple[int, float]:
    """m, and the invariance error on embeddings of the holdout."""
    training = prepared(store, runs, method)
    before = [weight.clone() for weight in training.task.parameters()]
    metrics = training.run().metrics
    assert all(value == value for values in metrics.values() for value in values.values())  # not NaN
    assert any(not torch.equal(a, b) for a, b in zip(before, training.task.parameters(), strict=True))
    return sizes_of(training.task.model.readout)[1], measure_certificate(training)["invariance_error"]


@pytest.mark.parametrize("name", TRAINED)
def test_it_trains_for_an_epoch(name: str, store: GraphStore, tmp_path: Path) -> None:
    m, error = trained(store, tmp_path, f"pyg:{name}")
    assert m == TRAINED[name]
    assert error > 1e-4 if name.startswith(DEPENDS_ON_ORDER) else error < 1e-6


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_the_reason(name: str, store: GraphStore, tmp_path: Path) -> None:
    with pytest.raises(ReadoutError) as error:
        prepared(store, tmp_path, f"pyg:{name}")
    assert REFUSED[name] in str(error.value) and "\n" not in str(error.value)


def test_what_needs_a_module_or_a_tensor_trains_as_an_object(store: GraphStore, tmp_path: Path) -> None:
    scalers = ["identity", "amplification"]
    degrees = torch.tensor([0, 0, 3, 5, 5, 5, 3, 1])
    for readout, m in (
        (pyg.AttentionalAggregation(nn.Linear(D, 1)), D),
        (pyg.DegreeScalerAggregation(["mean", "max"], scalers, degrees), 4 * D),
    ):
        width, error = trained(store, tmp_path, readout)
        assert width == m and error < 1e-6


def test_every_aggregation_of_pyg_is_here() -> None:
    assert {name.partition(",")[0] for name in (*TRAINED, *REFUSED)} == set(pyg.__all__)


class Halves(pyg.Aggregation):
    """Its out_channels is not m, and its forward uses it."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.out_channels = in_channels // 2

    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
        return self.reduce(x, index, ptr, dim_size, dim).view(-1, 2 * self.out_channels)


def test_attributes_of_the_same_names_keep_their_own_meaning(store: GraphStore, tmp_path: Path) -> None:
    assert trained(store, tmp_path, Halves)[0] == D
