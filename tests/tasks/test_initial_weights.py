import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv

from permlab.readouts.catalogue import build
from permlab.tasks.backbones import Shape, build_backbone
from permlab.tasks.errors import BackboneError
from permlab.tasks.gcn import GCN
from permlab.tasks.initial_weights import INITIAL, draw_weights
from permlab.tasks.model import Head
from permlab.tasks.ragged import RaggedLinear

IN, HIDDEN, OUT = 40, 300, 20


def drawn(name: str, bias: bool = True) -> tuple[GCN, Head]:
    torch.manual_seed(0)
    gamma, head = GCN(IN, HIDDEN, OUT, bias=bias), Head(build("sum", OUT, 9), 150)
    draw_weights(name, gamma, head)
    return gamma, head


@pytest.mark.parametrize(
    ("name", "deviation", "bias"),
    [
        ("glorot", (2 / (IN + HIDDEN)) ** 0.5, 0.0),
        ("he", (2 / IN) ** 0.5, 0.0),
        ("normal", 0.05, 0.0),
        ("uniform", IN**-0.5 / 3**0.5, IN**-0.5 / 3**0.5),
        ("kipf", HIDDEN**-0.5 / 3**0.5, HIDDEN**-0.5 / 3**0.5),
    ],
)
def test_the_deviation_of_gammas_first_layer(name: str, deviation: float, bias: float) -> None:
    gamma, _ = drawn(name)
    assert float(gamma.weights[0].detach().std()) == pytest.approx(deviation, rel=0.05)
    assert float(gamma.biases[0].detach().std()) == pytest.approx(bias, rel=0.15)


def test_glorot_is_what_pyg_has_and_uniform_what_torch_has() -> None:
    torch.manual_seed(0)
    conv, linear = GCNConv(IN, HIDDEN), nn.Linear(OUT, 150)
    assert float(conv.lin.weight.detach().std()) == pytest.approx(
        float(drawn("glorot")[0].weights[0].detach().std()), rel=0.05
    )
    assert float(linear.weight.detach().std()) == pytest.approx(
        float(drawn("uniform")[1].first.weight.detach().std()), rel=0.05
    )


@pytest.mark.parametrize("name", INITIAL)
def test_all_layers_of_gamma_are_drawn_also_without_biases(name: str) -> None:
    torch.manual_seed(0)
    before = GCN(IN, HIDDEN, OUT, bias=False)
    gamma, _ = drawn(name, bias=False)
    assert not [*gamma.biases]
    assert all(not torch.equal(old, new) for old, new in zip(before.weights, gamma.weights, strict=True))


@pytest.mark.parametrize("name", INITIAL)
@pytest.mark.parametrize("readout", ["sum", "ordering"])
def test_all_layers_of_zeta_are_drawn(name: str, readout: str) -> None:
    """Also the ragged one after a readout that returns rows."""
    gamma, head = GCN(IN, HIDDEN, OUT), Head(build(readout, OUT, 9), 150)
    assert isinstance(head.first, RaggedLinear) == (readout == "ordering")
    layers = (head.first, *head.inner, head.last)
    before = [layer.weight.detach().clone() for layer in layers]
    draw_weights(name, gamma, head)
    assert not any(torch.equal(old, layer.weight) for old, layer in zip(before, layers, strict=True))


@pytest.mark.parametrize("name", ["kipf", "uniform"])
def test_kipfs_rule_is_for_gamma_alone(name: str) -> None:
    _, head = drawn(name)
    for part in (head.first.weight, head.first.bias):
        assert float(part.detach().std()) == pytest.approx((3 * OUT) ** -0.5, rel=0.15)


def test_pyg_s_models_are_drawn_too() -> None:
    gamma, head = build_backbone("gin", Shape(IN, 0, OUT)), Head(build("sum", OUT, 9), 9)
    before = [weight.clone() for weight in gamma.parameters()]
    draw_weights("he", gamma, head)
    assert sum(not torch.equal(old, new) for old, new in zip(before, gamma.parameters(), strict=True)) >= 6


def test_a_backbone_without_dense_layers_is_refused() -> None:
    with pytest.raises(BackboneError, match=r"model.init=he .* Identity has none"):
        draw_weights("he", nn.Identity(), Head(build("sum", OUT, 9), 9))
