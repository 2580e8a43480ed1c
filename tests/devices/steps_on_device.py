"""Training on the simulated device gives the CPU's numbers, and in no step does the host wait for the device.

Run by tests/tasks/test_devices.py, in a process of its own.
"""

import copy
from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.accelerators import Accelerator
from pytorch_lightning.strategies import SingleDeviceStrategy
from simulated_device import no_double, no_waiting, waits
from torch import Tensor, nn
from torch_geometric.nn import aggr

from permlab.datasets.batch import GraphBatch
from permlab.datasets.store import GraphStore
from permlab.readouts.base import Readout, RowReadout
from permlab.readouts.catalogue import CATALOGUE, build
from permlab.readouts.names import PAPER_METHODS
from permlab.readouts.pooling import Sum
from permlab.readouts.segments import segment_sum
from permlab.tasks.data import GraphData
from permlab.tasks.gcn import GCN
from permlab.tasks.model import GraphModel, Head
from permlab.tasks.objectives import MultiClass, MultiLabel, Objective, Regression, choose_objective
from permlab.tasks.task import OPTIMIZERS, GraphTask
from tests.datasets.stores import build_store
from tests.readouts.cases import OWN

FEATURES, MAX_NODES, D = 5, 14, 4
OBJECTIVES = ("classification", "regression")
WIDTHS = {"power_sums": 1, "alpha0": 2, "alpha1": 2, "alpha2": 2, "zeta0": 2, "zeta1": 2, "polynomial": 2}
# Their host must know the sizes of the graphs, or solves an assignment itself; their docstrings say so.
MAY_WAIT = ("max_filters", "set_transformer", "multiset_transformer", "janossy", "lstm", "mlp")
READOUTS = [method for method in CATALOGUE if method != "gru"]  # the simulated device has no kernel for its cell

Pair = tuple[list[GraphBatch], list[GraphBatch]]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, GraphStore]:
    """A data set per objective."""
    sizes = f"graphs=40,min_nodes=1,max_nodes={MAX_NODES},features={FEATURES}"
    folder = tmp_path_factory.mktemp("stores")
    return {objective: build_store(f"synthetic,{sizes},task={objective}", folder) for objective in OBJECTIVES}


@pytest.fixture
def batches(stores: dict[str, GraphStore]) -> Callable[[str], Pair]:
    """Two batches on the CPU, and the same two on the device: one assembled there, one moved there."""

    def make(objective: str) -> Pair:
        store, graphs, permuted = stores[objective], np.arange(12), np.arange(12) % 3 - 1  # −1 is not permuted
        there = store.to("sim")
        return (
            [store.batch(graphs, permuted), unusual_batch()],
            [there.batch(graphs, permuted), unusual_batch().to("sim")],
        )

    return make


def unusual_batch() -> GraphBatch:
    """Six graphs with directed and repeated edges; one graph is empty, one has a single node."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.tensor([5, 0, 1, MAX_NODES, 3, 13])
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])
    start, size = (of_graph.repeat_interleave(3 * sizes) for of_graph in (ptr[:-1], sizes))
    edge_index = (torch.rand(2, len(size), generator=generator) * size).long() + start
    x = torch.randn(int(ptr[-1]), FEATURES, generator=generator)
    return GraphBatch(x, edge_index, ptr, torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 0.0]))


def task_of(
    readout: nn.Module, objective: str = "regression", d: int = D, activation: str = "relu", dropout: float = 0.0
) -> GraphTask:
    torch.manual_seed(0)
    backbone = GCN(FEATURES, 6, d, activation=activation, dropout=dropout)
    model = GraphModel(backbone, readout, Head(readout, 7, 3, activation, dropout))
    return GraphTask(model, choose_objective(objective, ("y",), 2), ("train", "holdout_perm"))


def take_steps(
    task: GraphTask, batches: list[GraphBatch], optimizer: str = "adam", foreach: bool | None = None
) -> list[Tensor]:
    """One step per batch: the losses, then every gradient of the last step and every weight after it."""
    weights = list(task.parameters())
    moves = OPTIMIZERS[optimizer](weights, lr=1e-2, weight_decay=1e-2, foreach=foreach)
    losses = []
    for batch in batches:
        moves.zero_grad()
        loss = task.training_step(batch, 0)
        loss.backward()
        moves.step()
        losses.append(loss.detach())
    return [*losses, *(weight.grad for weight in weights), *(weight.detach() for weight in weights)]


def assert_same_steps(
    task: GraphTask, on_cpu: list[GraphBatch], on_device: list[GraphBatch], waiting: bool = False, **options: Any
) -> None:
    """Steps on the device give the CPU's numbers, and the host waits in none of them, unless it may."""
    moved = copy.deepcopy(task).to("sim")
    expected = take_steps(task, on_cpu, **options)
    with nullcontext() if waiting else no_waiting():
        results = take_steps(moved, on_device, **options)
    assert all(tensor.device.type == "sim" for tensor in results) and len(results) > 20
    assert all(tensor.isfinite().all() for tensor in expected)
    torch.testing.assert_close([tensor.cpu() for tensor in results], expected, atol=1e-5, rtol=1e-5)


def _optimiser_of(method: str) -> str:
    """Adam scales up the rounding errors of a gradient that is 0, as that of a bias inside a softmax."""
    return "sgd" if method.endswith("transformer") else "adam"


STEPS = [  # every optimiser and objective with the paper's readouts, one of each with the others
    *product(PAPER_METHODS, OBJECTIVES, OPTIMIZERS),
    *((method, "regression", _optimiser_of(method)) for method in READOUTS if method not in PAPER_METHODS),
]


@pytest.mark.parametrize(("method", "objective", "optimizer"), STEPS)
def test_every_readout_objective_and_optimiser(method: str, objective: str, optimizer: str, batches) -> None:
    d = WIDTHS.get(method, D)
    task = task_of(build(method, d, MAX_NODES), objective, d)
    assert_same_steps(task, *batches(objective), waiting=method in MAY_WAIT, optimizer=optimizer)


class Weighted(nn.Module):
    """A loss with a buffer, which is to follow the predictions."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.tensor(3.0))

    def forward(self, predictions: Tensor, y: Tensor) -> Tensor:
        return (self.weight * (predictions - y)).square().nanmean()


@pytest.mark.parametrize(
    "objective",
    [MultiClass(3), MultiLabel(("a", "b")), Regression(("a", "b"), "huber", torch.tensor([2.0, 3.0]))],
    ids=lambda each: type(each).__name__,
)
def test_losses_with_missing_labels(objective: Objective) -> None:
    predictions, y = (tensor.float() for tensor in objective.example())
    y[::5] = float("nan")
    here, there = predictions.clone().requires_grad_(), predictions.to("sim").requires_grad_()
    expected, labels = objective.loss(here, y), y.to("sim")
    with no_waiting():
        loss = objective.loss(there, labels)
        loss.backward()
    expected.backward()
    torch.testing.assert_close([loss.detach().cpu(), there.grad.cpu()], [expected.detach(), here.grad])


def test_a_module_as_the_loss_follows_the_predictions() -> None:
    objective, (predictions, y) = Regression(loss=Weighted()), Regression().example()
    here = objective.loss(predictions.float(), y.float())
    there = objective.loss(predictions.float().to("sim"), y.float().to("sim"))
    torch.testing.assert_close(there.cpu(), here)
    assert objective.measure(predictions, y)["loss"] == pytest.approx(here.item(), rel=1e-6)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimisers_that_move_all_weights_at_once_as_on_cuda(optimizer: str, batches) -> None:
    task = task_of(build("ordering", D, MAX_NODES))
    assert_same_steps(task, *batches("regression"), optimizer=optimizer, foreach=True)


@pytest.mark.parametrize(("activation", "dropout"), [("relu", 0.3), ("tanh", 0.0), ("elu", 0.2)])
@pytest.mark.parametrize("method", ["ordering", "sum"])
def test_activations_and_dropout(method: str, activation: str, dropout: float, batches) -> None:
    task = task_of(build(method, D, MAX_NODES), activation=activation, dropout=dropout)
    assert_same_steps(task, *batches("regression"))


@pytest.mark.parametrize("method", READOUTS)
def test_a_device_without_double_precision(method: str, batches) -> None:
    d = WIDTHS.get(method, D)
    with no_double():
        task = task_of(build(method, d, MAX_NODES), d=d)
        assert_same_steps(task, *batches("regression"), waiting=method in MAY_WAIT, optimizer=_optimiser_of(method))
        with pytest.raises(TypeError, match="float64"):
            torch.zeros(1, dtype=torch.float64, device="sim")


class SquaredRows(RowReadout):
    """A user's own rows, with a weight."""

    def __init__(self, in_channels: int, max_nodes: int) -> None:
        super().__init__()
        self.in_channels, self.row_channels = in_channels, 2
        self.max_nodes, self.out_channels = max_nodes, 2 * max_nodes
        self.weight = nn.Parameter(torch.linspace(-1, 1, 2 * in_channels).view(in_channels, 2))

    def rows(self, x: Tensor, ptr: Tensor) -> Tensor:
        return (x @ self.weight).square()


@pytest.mark.parametrize(
    "readout",
    [*(case.make(D, MAX_NODES) for case in OWN), SquaredRows(D, MAX_NODES)],
    ids=lambda readout: type(readout).__name__,
)
def test_a_users_own_readout(readout: Readout, batches) -> None:
    assert_same_steps(task_of(readout), *batches("regression"))


@pytest.mark.parametrize(
    ("readout", "width"),
    [
        (aggr.MeanAggregation(), D),
        (aggr.MaxAggregation(), D),
        (aggr.StdAggregation(), D),
        (aggr.SoftmaxAggregation(learn=True), D),
        (aggr.AttentionalAggregation(nn.Linear(D, 1)), D),
        (aggr.MultiAggregation(["mean", "min", "var"]), 3 * D),
        (aggr.Set2Set(D, 2), 2 * D),
    ],
    ids=lambda value: type(value).__name__,
)
def test_aggregations_of_pyg(readout: nn.Module, width: int, batches) -> None:
    readout.out_channels = width
    assert_same_steps(task_of(readout), *batches("regression"))


class Simulated(Accelerator):
    """What Lightning has to know of the device."""

    setup_device = teardown = lambda self, *args: None
    parse_devices = get_parallel_devices = staticmethod(lambda devices: devices)
    auto_device_count = staticmethod(lambda: 1)
    is_available = staticmethod(lambda: True)
    name = staticmethod(lambda: "sim")


class WaitsPerStep(pl.Callback):
    def __init__(self) -> None:
        self.counts: list[int] = []

    def on_train_batch_start(self, *args: Any) -> None:
        waits.clear()

    def on_train_batch_end(self, *args: Any) -> None:
        self.counts.append(waits.total())


def fitted(store: GraphStore, **where: Any) -> tuple[GraphTask, list[int]]:
    task, steps = task_of(build("ordering", D, MAX_NODES), "classification", dropout=0.1), WaitsPerStep()
    data = GraphData(store, store.split(0, holdout=15), task.splits, seed=0, batch_size=10)
    quiet = {f"enable_{part}": False for part in ("checkpointing", "progress_bar", "model_summary")}
    trainer = pl.Trainer(max_epochs=2, logger=False, callbacks=[steps], num_sanity_val_steps=0, **quiet, **where)
    trainer.fit(task, data)
    return task, steps.counts


def test_lightning_trains_and_evaluates_there(stores: dict[str, GraphStore]) -> None:
    store = stores["classification"]
    here, _ = fitted(store, accelerator="cpu")
    there, counts = fitted(store, strategy=SingleDeviceStrategy(torch.device("sim:0"), Simulated()))
    assert counts == [0] * 6, "the host waited in a step"
    for split, measured in here.measured.items():
        assert there.measured[split] == pytest.approx(measured, abs=1e-5)
        torch.testing.assert_close(there.outputs[split], here.outputs[split], atol=1e-5, rtol=1e-5)


# The checks above can fail: they catch a readout that waits, and one that computes other numbers.


class Waiting(Sum):
    """Looks at a number of the device in every step."""

    def __init__(self, look: Callable[[Tensor], Any]) -> None:
        super().__init__(D)
        self.look = look

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        self.look(x.detach())
        return super().pool(x, ptr)


@pytest.mark.parametrize(
    ("look", "reason"),
    [
        (lambda x: x.sum().item(), "_local_scalar_dense"),
        (lambda x: x.cpu(), "copy to the host"),
        (lambda x: x[x > 0], "index by a mask"),
    ],
    ids=["item", "cpu", "mask"],
)
def test_a_readout_that_waits_is_caught(look: Callable[[Tensor], Any], reason: str, batches) -> None:
    with pytest.raises(AssertionError, match=f"waited for the device.*{reason}"):
        assert_same_steps(task_of(Waiting(look)), *batches("regression"))


class OtherThere(Sum):
    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        return segment_sum(x, ptr) * (1.001 if x.device.type == "sim" else 1)


def test_wrong_numbers_are_caught(batches) -> None:
    with pytest.raises(AssertionError, match="not close"):
        assert_same_steps(task_of(OtherThere(D)), *batches("regression"))


def test_a_readout_outside_a_model_checks_its_input() -> None:
    """To read the values on the device the host has to wait."""
    x, ptr = torch.ones(3, D).to("sim"), torch.tensor([0, 3]).to("sim")
    with pytest.raises(AssertionError, match="waited for the device"), no_waiting():
        Sum(D)(x, ptr=ptr)


WAITING: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x.sum()),
    "bool": lambda x: bool((x > 0).any()),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu", non_blocking=True),
    "copy_": lambda x: torch.empty(3).copy_(x),
    "equal": lambda x: torch.equal(x, x + 1),
    "nonzero": lambda x: x.nonzero(),
    "where": lambda x: torch.where(x > 0),
    "unique": lambda x: x.unique(),
    "masked_select": lambda x: x.masked_select(x > 0),
    "a mask": lambda x: x[x > 0],
    "assignment by a mask": lambda x: x.clone().__setitem__(x > 0, x[:2]),
    "repeat_interleave": lambda x: x.repeat_interleave(x.long()),
    "bincount": lambda x: x.long().bincount(),
    "blocking copy": lambda x: torch.ones(3).to(x.device),
    "torch.tensor": lambda x: torch.tensor([1.0, 2.0], device=x.device),
}
FREE: dict[str, Callable[[Tensor], Any]] = {
    "arithmetic": lambda x: ((x + 1) * torch.tensor(2.0) @ x).sqrt(),
    "factory": lambda x: torch.arange(3, device=x.device) + torch.zeros(3, device="sim"),
    "shape": lambda x: (len(x), x.shape, x.numel()),
    "index": lambda x: x[x.long()],
    "sort": lambda x: x.sort(stable=True),
    "masked_fill": lambda x: x.masked_fill(x > 0, 0.0),
    "where": lambda x: torch.where(x > 0, x, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(x.long(), output_size=3),
    "non-blocking copy": lambda x: torch.ones(3).to(x.device, non_blocking=True),
    "conversion": lambda x: x.to(torch.float64).to("sim"),
}


@pytest.mark.parametrize("call", WAITING.values(), ids=WAITING)
def test_the_device_counts_what_waits(call: Callable[[Tensor], Any]) -> None:
    x = torch.tensor([0.0, 1.0, 2.0]).to("sim")
    waits.clear()
    call(x)
    assert waits.total() == 1


@pytest.mark.parametrize("call", FREE.values(), ids=FREE)
def test_the_device_counts_nothing_else(call: Callable[[Tensor], Any]) -> None:
    x = torch.tensor([0.0, 1.0, 2.0]).to("sim")
    with no_waiting():
        call(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x + y,
        lambda x, y: torch.cat([y, x]),
        lambda x, y: x.index_select(0, y.long()),
        lambda x, y: y.index_add(0, y.long(), x),
        lambda x, y: torch.where(y > 0, x, 0),
        lambda x, y: nn.Linear(3, 1)(x),
    ],
    ids=["add", "cat", "index_select", "index_add", "where", "module"],
)
def test_the_device_refuses_tensors_of_the_cpu(call: Callable[[Tensor, Tensor], Any]) -> None:
    y = torch.ones(3)
    with pytest.raises(RuntimeError, match="same device"):
        call(y.to("sim"), y)
