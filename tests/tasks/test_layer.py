"""The one-step layers against what autograd makes of their formula."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from permlab.datasets.batch import GraphBatch
from permlab.tasks.hop import neighbours
from permlab.tasks.layer import Layer, Links, chain

PLAIN = {"relu": torch.relu, "tanh": torch.tanh, "elu": nn.functional.elu, "none": lambda z: z}


@pytest.fixture
def batch() -> GraphBatch:
    """A symmetric Â of seven nodes."""
    generator = torch.Generator().manual_seed(0)
    a = torch.rand(7, 7, generator=generator, dtype=torch.float64) * (torch.rand(7, 7, generator=generator) < 0.5)
    a = (a + a.T + torch.eye(7)).to_sparse_csr()
    ptr, column = a.crow_indices().int(), a.col_indices().int()
    return GraphBatch(torch.empty(7, 1), torch.tensor([0, 7]), ptr, column, a.values(), torch.zeros(1))


def same_with_gradients(found: Tensor, expected: Tensor, *inputs: Tensor) -> None:
    torch.testing.assert_close(found, expected)
    direction = torch.randn_like(found)
    ours = torch.autograd.grad((found * direction).sum(), inputs)
    theirs = torch.autograd.grad((expected * direction).sum(), inputs)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("activation", PLAIN)
@pytest.mark.parametrize("widths", [(3, 5), (5, 3), (20, 4), (4, 20), (6, 1), (18, 17)])
@pytest.mark.parametrize("with_graph", [True, False])
def test_a_layer_is_its_formula(batch: GraphBatch, activation: str, widths: tuple[int, int], with_graph: bool) -> None:
    torch.manual_seed(sum(widths))
    h, weight, bias = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((7, widths[0]), widths, widths[1:])
    )
    a = batch.adjacency.to_dense() if with_graph else torch.eye(7, dtype=torch.float64)
    expected = PLAIN[activation](a @ h @ weight + bias)
    found = chain(Links(h, [Layer(activation)], [weight, bias], [neighbours(batch) if with_graph else None]))
    same_with_gradients(found, expected, h, weight, bias)


@pytest.mark.parametrize("activation", PLAIN)
@pytest.mark.parametrize("widths", [(3, 5), (20, 4), (6, 1)])
def test_a_dense_layer_is_nn_linear(activation: str, widths: tuple[int, int]) -> None:
    torch.manual_seed(sum(widths))
    linear = nn.Linear(*widths).double()
    h = torch.randn(7, widths[0], dtype=torch.float64, requires_grad=True)
    found = chain(Links(h, [Layer(activation, linear=True)], [linear.weight, linear.bias], [None]))
    same_with_gradients(found, PLAIN[activation](linear(h)), h, *linear.parameters())


@pytest.mark.parametrize("activation", PLAIN)
@pytest.mark.parametrize("widths", [(3, 20, 5), (20, 4, 18, 1), (5, 5)])
def test_a_chain_is_one_layer_after_the_other(batch: GraphBatch, activation: str, widths: tuple[int, ...]) -> None:
    torch.manual_seed(sum(widths))
    h = torch.randn(7, widths[0], dtype=torch.float64, requires_grad=True)
    layers = [Layer(activation, linear=i == 1) for i in range(len(widths) - 1)]
    steps = [neighbours(batch) if i else None for i in range(len(layers))]
    parameters, expected = [], h
    for step, (p, q) in zip(steps, pairwise(widths), strict=True):
        weight, bias = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((p, q), (q,)))
        expected = PLAIN[activation]((batch.adjacency.to_dense() @ expected if step else expected) @ weight + bias)
        parameters += [weight, bias]
    given = [parameter.T if parameter.dim() == 2 and i == 2 else parameter for i, parameter in enumerate(parameters)]
    same_with_gradients(chain(Links(h, layers, given, steps)), expected, h, *parameters)


def test_a_second_derivative_is_refused_not_wrong(batch: GraphBatch) -> None:
    h, weight, bias = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((7, 3), (3, 4), (4,)))
    out = chain(Links(h, [Layer("tanh")], [weight, bias], [neighbours(batch)]))
    (first,) = torch.autograd.grad(out.square().sum(), h, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
