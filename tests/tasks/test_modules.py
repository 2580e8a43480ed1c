"""A training step by one compiled call, and along the tape, against the same model in double precision by autograd."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from permlab.datasets.store import GraphStore
from permlab.readouts.catalogue import build
from permlab.readouts.names import PAPER_METHODS
from permlab.readouts.tape import Tape
from permlab.tasks.gcn import GCN
from permlab.tasks.model import GraphModel, Head
from permlab.tasks.modules import TASKS, GraphClassification, GraphTask


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def task(
    store: GraphStore, kind: Any, method: str, last: str = "none", dropout: float = 0.0, d: int = 5, **options: Any
) -> GraphTask:
    torch.manual_seed(0)
    readout = build(method, d, store.manifest.max_nodes, **options)
    gcn, head = GCN(8, 18, d, last_activation=last, dropout=dropout), Head(readout, 9, 3, "relu", dropout)
    for bias in gcn.biases:
        torch.nn.init.normal_(bias)
    return kind(GraphModel(gcn, readout, head).float(), ("train",))


def gradients(made: GraphTask, batch: Any) -> list[Tensor]:
    made.zero_grad()
    with Tape() as tape:
        loss = made.training_loss(batch)
    tape.backward(loss)
    return [loss.detach(), *(parameter.grad.clone() for parameter in made.parameters())]


def by_autograd(made: GraphTask, batch: Any) -> list[Tensor]:
    """In double precision, which no compiled product takes."""
    double = batch._replace(x=batch.x.double(), a_value=batch.a_value.double(), y=batch.y.double())
    made.double().zero_grad()
    loss = made.loss(made.model(double), double.y)
    loss.backward()
    found = [loss.detach(), *(parameter.grad.clone() for parameter in made.parameters())]
    made.float()
    return found


def same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for mine, exact in zip(ours, theirs, strict=True):
        size = float(exact.abs().max())
        torch.testing.assert_close(mine.double(), exact, rtol=1e-3, atol=1e-4 * size + 1e-6)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("method", PAPER_METHODS)
def test_gradients_of_a_step_are_those_of_autograd(store: GraphStore, kind: str, method: str) -> None:
    made, batch = task(store, TASKS[kind], method), store.batch(np.arange(60))
    assert (made.model.links(batch) is not None) == (method in ("sum", "kernels"))
    same(gradients(made, batch), by_autograd(made, batch))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("method", [*PAPER_METHODS, "fourier", "reduced"])
def test_every_readout_is_trained_along_the_tape(large: GraphStore, method: str, threads: int) -> None:
    """Graphs of many sizes: the ragged layer has several blocks. The fused Adam reads gradients as they lie."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        made, batch = task(large, GraphClassification, method), large.batch(np.arange(40))
        ours = gradients(made, batch)
        optimizer = made.configure_optimizers()
        start = [parameter.detach().clone() for parameter in made.parameters()]
        optimizer.step()
        for old, parameter in zip(start, made.parameters(), strict=True):
            assert parameter.grad is not None
            moved, expected = parameter.detach() - old, -1e-3 * parameter.grad / (parameter.grad.abs() + 1e-8)
            torch.testing.assert_close(moved, expected, rtol=1e-2, atol=1e-6)  # Adam's first step
            parameter.data = old
        same(ours, by_autograd(made, batch))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("method", ["alpha0", "alpha1", "alpha2", "zeta0", "zeta1"])
def test_torchs_tape_between_steps_of_ours(store: GraphStore, method: str) -> None:
    made, batch = task(store, GraphClassification, method, d=2), store.batch(np.arange(20))
    ours = gradients(made, batch)
    made.zero_grad()
    made.loss(made.model(batch), batch.y).backward()
    for mine, parameter in zip(ours[1:], made.parameters(), strict=True):
        torch.testing.assert_close(mine, parameter.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("one_thread")
def test_hooks_are_called_and_widths_are_checked(store: GraphStore) -> None:
    made, batch, seen = task(store, GraphClassification, "kernels"), store.batch(np.arange(20)), []
    made.model.gcn.register_forward_hook(lambda *given: seen.append(given))
    made.training_loss(batch)
    assert len(seen) == 1 and made.model.links(batch) is None
    with pytest.raises(ValueError, match="kernel vectors have 6 entries, but are given rows of 5"):
        other = task(store, GraphClassification, "kernels")
        other.model.readout = build("kernels", 6, 8).float()
        other.training_loss(batch)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("last", ["none", "relu"])
@pytest.mark.parametrize("normalise", [True, False])
def test_kernels_as_a_link(store: GraphStore, last: str, normalise: bool) -> None:
    made, batch = (
        task(store, GraphClassification, "kernels", last, normalise=normalise, sigma=2.0),
        store.batch(np.arange(60)),
    )
    assert made.model.links(batch) is not None
    same(gradients(made, batch), by_autograd(made, batch))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("options", [{"dropout": 0.3}, {"mean": True}])
def test_what_is_no_chain_goes_another_way(store: GraphStore, options: dict[str, Any]) -> None:
    made, batch = task(store, GraphClassification, "kernels", **options), store.batch(np.arange(60))
    assert made.model.links(batch) is None
    if "mean" in options:
        same(gradients(made, batch), by_autograd(made, batch))


@pytest.mark.usefixtures("one_thread")
def test_a_loss_of_ones_own_is_the_one_that_is_trained(store: GraphStore) -> None:
    class Own(GraphClassification):
        def loss(self, predictions: Tensor, y: Tensor) -> Tensor:
            return functional.l1_loss(predictions, y)

    made, batch = task(store, Own, "sum"), store.batch(np.arange(60))
    same(gradients(made, batch), by_autograd(made, batch))


@pytest.mark.usefixtures("one_thread")
def test_it_does_not_matter_how_many_graphs_are_left(store: GraphStore) -> None:
    made = task(store, GraphClassification, "sum")
    for count in (1, 2):
        batch = store.batch(np.arange(count))
        same(gradients(made, batch), by_autograd(made, batch))
    assert not made.training_loss(store.batch(np.arange(0))).isfinite()  # a mean over nothing


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("method", ["sum", "kernels"])
def test_torchs_own_tape_gives_the_same_to_the_last_bit(store: GraphStore, method: str) -> None:
    made, batch = task(store, GraphClassification, method), store.batch(np.arange(60))
    taped = gradients(made, batch)
    made.zero_grad()
    loss = made.training_loss(batch)
    (2 * loss).backward()
    for ours, parameter in zip(taped[1:], made.parameters(), strict=True):
        assert parameter.grad is not None and torch.equal(2 * ours, parameter.grad)
