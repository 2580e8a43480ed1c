from inspect import signature

import pytest
import torch

from permlab.readouts.catalogue import CATALOGUE, build
from permlab.readouts.errors import ReadoutError
from permlab.readouts.names import NAMES, PAPER_METHODS
from permlab.readouts.pooling import Identity


def test_the_papers_seven_come_first() -> None:
    assert tuple(CATALOGUE) == NAMES and NAMES[:7] == PAPER_METHODS


def test_augment_is_the_identity_readout() -> None:
    assert type(build("augment", d=2, max_nodes=3)) is Identity


def test_sizes_of_the_paper() -> None:
    sizes = {method: build(method, d=10, max_nodes=29).out_channels for method in PAPER_METHODS}
    assert sizes == {
        "ordering": 29 * 11,
        "kernels": 100,
        "identity": 290,
        "augment": 290,
        "sum": 10,
        "sort": 290,
        "set2set": 20,
    }


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build("orderin", 2, 3), "'orderin'.*did you mean ordering.*choose from ordering, "),
        (lambda: build("qqq", 2, 3), "'qqq'.*choose from ordering, "),
        (lambda: build("sum", 0, 3), "d is 0.*at least 1"),
        (lambda: build("sum", 2, 2.5), "max_nodes is 2.5"),
        (lambda: build("sum", 2, 3, seed=-1), "seed is -1"),
        (lambda: build("sum", 2, 3, kernels=3), "sum has no option 'kernels'.*none"),
        (lambda: build("kernels", 2, 3, kernel=3), "kernels has no option 'kernel'.*choose from kernels, sigma"),
        (lambda: build("kernels", 2, 3, kernels=0), "kernels is 0"),
        (lambda: build("kernels", 2, 3, sigma=0.0), "sigma is 0.0.*positive"),
        (lambda: build("fourier", 2, 3, scale=-1.0), "scale is -1.0.*positive"),
        (lambda: build("ordering", 3, 4, key=[[1.0, 2.0]]), "1 rows.*d = 3"),
        (lambda: build("ordering", 2, 4, key=[[1.0], [2.0]]), "D = 1 columns.*d = 2"),
        (lambda: build("zeta0", 3, 4), "d is 3.*Zeta0.*d = 2"),
        (lambda: build("power_sums", 2, 4), "d is 2.*power_sums.*d = 1"),
        (lambda: build("alpha0", 10, 29), "635,745,395.*limit is 100,000"),
        (lambda: build("polynomial", 10, 29), "635,745,395.*limit is 100,000"),
        (lambda: build("reduced", 10, 620), "12400 × 13020.*161,448,000.*limit is"),
        (lambda: build("gamma", 10, 620), "N = 620.*d = 10 would give m = 12,390 outputs.*limit is 10,000"),
        (lambda: build("fsw", 10, 620), "m = 12,402 outputs.*choose a smaller out_channels"),
        (lambda: build("deepsets", 10, 620), "m = 12,401 outputs"),
        (lambda: build("max_filters", 10, 620), "max_nodes is 620.*at most 64.*rank_one_filters"),
        (lambda: build("fsw", 2, 3, out_channels=1), "out_channels is 1.*at least 2"),
        (lambda: build("pswe", 2, 3, ranks=1), "ranks is 1.*at least 2"),
        (lambda: build("trained_ordering", 3, 4, columns=2), "columns is 2.*at least 3"),
        (lambda: build("set_transformer", 3, 4, heads=2), "heads is 2; it must divide d = 3"),
        (lambda: build("janossy", 3, 4, samples=0), "samples is 0"),
        (lambda: build("power_mean", 3, 4, p=-1.0), "p is -1.0.*positive"),
        (lambda: build("mlp", 100, 20_000), "2,000,000 inputs.*limit is 1,000,000"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(call, message: str) -> None:
    with pytest.raises(ReadoutError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_random_parts_depend_on_the_seed_alone() -> None:
    x = torch.randn(4, 2)
    drawn = [name for name, made_by in CATALOGUE.items() if "seed" in signature(made_by).parameters]
    assert {"kernels", "fourier", "set2set", "reduced", "gamma", "fsw", "pswe", "mlp", "gru"} < set(drawn)
    for method in drawn:
        outputs = [build(method, 2, 4, seed=seed)(x) for seed in (0, 0, 1)]
        assert torch.equal(outputs[0], outputs[1])
        assert not torch.allclose(outputs[0], outputs[2])


@pytest.mark.parametrize("method", ["gamma", "rank_one_filters", "max_filters", "fsw", "deepsets"])
def test_fewer_outputs_than_the_theorem_asks_for_promise_less(method: str) -> None:
    enough = build(method, d=2, max_nodes=3)
    fewer = build(method, d=2, max_nodes=3, out_channels=enough.out_channels - 1)
    assert (enough.injective, fewer.injective) == ("yes", "no") and not fewer.bi_lipschitz
    assert CATALOGUE[method].injective == "yes"
