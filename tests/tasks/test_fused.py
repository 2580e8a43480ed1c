"""Chains by compiled calls against the same chains step by step, on real Â and on Â with equal rows taken together."""

import numpy as np
import pytest
import torch
from torch import Tensor

from permlab.datasets.colours import Colours
from permlab.datasets.store import GraphStore
from permlab.tasks.fused import FusedChain
from permlab.tasks.hop import Step, neighbours, sums
from permlab.tasks.layer import Layer, Links, _Chain, chain
from permlab.tasks.quotient import quotient

RELU, LINEAR = Layer("relu"), Layer("none")


def parameters(widths: list[int], layers: list[Layer], seed: int = 0) -> list[Tensor]:
    generator, found = torch.Generator().manual_seed(seed), []
    for p, q, layer in zip(widths, widths[1:], layers, strict=False):
        shape = (q, p) if layer.linear else (p, q)
        found += [torch.randn(*shape, generator=generator) * p**-0.5, torch.randn(q, generator=generator)]
    return [each.requires_grad_() for each in found]


def same(h: Tensor, layers: list[Layer | None], steps: list[Step | None], given: list[Tensor], wants_h: bool) -> None:
    found = []
    for kind in (FusedChain, _Chain):
        start = h.clone().requires_grad_(wants_h)
        out = kind.apply(start, layers, steps, False, *given)
        direction = torch.sin(torch.arange(out.numel())).view_as(out)
        wanted = [*given, start] if wants_h else given
        found.append([out, *torch.autograd.grad((out * direction).sum(), wanted)])
    for ours, theirs in zip(*found, strict=True):
        size = float(theirs.detach().abs().max()) if theirs.numel() else 0.0
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 * size + 1e-6)


@pytest.mark.parametrize("d", [1, 3, 20, 50])
@pytest.mark.parametrize("last", [RELU, LINEAR])
@pytest.mark.parametrize("wants_h", [True, False])
def test_a_gcn(store: GraphStore, d: int, last: Layer, wants_h: bool) -> None:
    batch = store.batch(np.arange(40))
    layers, whole = [RELU, LINEAR, last], neighbours(batch)
    given = parameters([batch.x.size(1), 18, 7, d], layers)
    same(batch.x, layers, [None, whole, whole], given, wants_h)
    same(batch.x, [*layers[:2], None], [None, whole, whole], given[:4], wants_h)  # a product with Â alone at the end
    same(batch.x, [RELU, None, LINEAR], [None, whole, None], given[:4], wants_h)
    for weighted in (True, False):
        same(batch.x, layers, [None, whole, sums(batch, weighted)], given, wants_h)
    same(batch.x, layers[:1], [whole], given[:2], wants_h)
    same(batch.x, [None], [whole], [], True)


@pytest.mark.parametrize("widths", [[9, 150, 150, 1], [200, 3, 4]])
def test_a_head(widths: list[int]) -> None:
    layers = [Layer("relu", linear=True)] * (len(widths) - 2) + [Layer(linear=True)]
    same(torch.randn(33, widths[0]), layers, [None] * len(layers), parameters(widths, layers), True)


@pytest.mark.parametrize("d", [2, 30])
def test_equal_rows_taken_together(coloured: GraphStore, colours: Colours, d: int) -> None:
    batch = coloured.batch(np.arange(50, 150), colours=colours)
    found = quotient(batch)
    assert found is not None
    layers = [RELU, RELU, LINEAR]
    same(found.x, layers, [None, *found.steps], parameters([1, 20, 20, d], layers), False)


def test_which_one_is_taken(store: GraphStore) -> None:
    batch, before = store.batch(np.arange(5)), torch.get_num_threads()
    given = parameters([batch.x.size(1), 4], [RELU])
    torch.set_num_threads(1)
    try:
        assert "FusedChain" in str(chain(Links(batch.x, [RELU], given, [None])).grad_fn)
        assert "FusedChain" not in str(chain(Links(batch.x, [Layer("tanh")], given, [None])).grad_fn)
        double = [each.detach().double().requires_grad_() for each in given]
        assert "FusedChain" not in str(chain(Links(batch.x.double(), [RELU], double, [None])).grad_fn)
        torch.set_num_threads(2)
        assert "FusedChain" not in str(chain(Links(batch.x, [RELU], given, [None])).grad_fn)
    finally:
        torch.set_num_threads(before)


def test_graphs_without_nodes(store: GraphStore) -> None:
    batch = store.batch(np.arange(2))
    none = batch._replace(
        x=batch.x[:0], ptr=torch.zeros(3, dtype=torch.int64), a_ptr=batch.a_ptr[:1], a_column=batch.a_column[:0]
    )._replace(a_value=batch.a_value[:0])
    layers, whole = [RELU, RELU, LINEAR], neighbours(none)
    given = parameters([batch.x.size(1), 6, 6, 3], layers)
    same(none.x, layers, [None, whole, whole], given, True)
    same(none.x, layers, [None, whole, sums(none, weighted=True)], given, False)
    same(none.x, layers[:1], [sums(none, weighted=False)], given[:2], True)


def test_what_does_not_fit_is_refused(store: GraphStore) -> None:
    batch, before = store.batch(np.arange(3)), torch.get_num_threads()
    weight, bias = parameters([batch.x.size(1) + 1, 4], [RELU])
    torch.set_num_threads(1)
    try:
        with pytest.raises(ValueError, match=f"a layer takes {len(weight)} columns, but is given {len(weight) - 1}"):
            chain(Links(batch.x, [RELU], [weight, bias], [None]))
        turned = torch.randn(4, batch.x.size(1)).T
        torch.testing.assert_close(chain(Links(batch.x, [LINEAR], [turned, bias], [None])), batch.x @ turned + bias)
    finally:
        torch.set_num_threads(before)


def test_a_change_before_the_gradient_is_noticed(store: GraphStore) -> None:
    given = parameters([store.az.shape[1], 4], [RELU])
    out = FusedChain.apply(store.batch(np.arange(3)).x, [RELU], [None], False, *given)
    with torch.no_grad():
        given[0].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_a_second_derivative_is_refused_not_wrong(store: GraphStore) -> None:
    batch = store.batch(np.arange(5))
    h, given = batch.x.clone().requires_grad_(), parameters([batch.x.size(1), 4], [RELU])
    out = FusedChain.apply(h, [RELU], [None], False, *given)
    (first,) = torch.autograd.grad(out.square().sum(), h, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_two_gradients_of_one_chain_are_the_same(store: GraphStore) -> None:
    batch = store.batch(np.arange(20))
    given = parameters([batch.x.size(1), 6, 3], [RELU, RELU])
    out = FusedChain.apply(batch.x, [RELU, RELU], [None, neighbours(batch)], True, *given)
    assert out.dim() == 1
    twice = [torch.autograd.grad(out.sum(), given, retain_graph=True) for _ in range(2)]
    torch.testing.assert_close(*twice, rtol=0, atol=0)
