"""What every readout promises, built in or a user's own."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import functional_call
from torch_geometric.nn.aggr import Aggregation

from permlab.readouts.base import Readout, gives_rows
from permlab.readouts.errors import ReadoutError
from tests.readouts.cases import CASES, RUNS, WAYS, Case

N = 5
SIZES = (3, 1, 0, 5, 4)
PTR = torch.tensor([0, *np.cumsum(SIZES)])
INDEX = torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES))
DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: {"rtol": 1e-4, "atol": 1e-4}, torch.float64: {"rtol": 1e-9, "atol": 1e-11}}


def sample(case: Case, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    """Numbers that single precision holds exactly."""
    return torch.randn(sum(SIZES), case.d, generator=torch.Generator().manual_seed(seed)).to(dtype)


def expected(case: Case, readout: Readout, x: Tensor) -> Tensor:
    """The formula, graph by graph."""
    return torch.tensor(np.stack([case.formula(readout, block.double().numpy()) for block in x.split(SIZES)]))


def shuffled(x: Tensor, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.cat([block[torch.randperm(len(block), generator=generator)] for block in x.split(SIZES)])


def gradients(readout: Readout, x: Tensor) -> list[Tensor]:
    """Of a fixed linear function of the output, by x and every weight."""
    rows = x.clone().requires_grad_()
    out = readout(rows, ptr=PTR)
    direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(2)).to(out.dtype)
    return list(torch.autograd.grad((out * direction).sum(), [rows, *readout.parameters()]))


@pytest.mark.parametrize(("way", "case"), RUNS, ids=str, indirect=["way"])
class TestContract:
    def make(self, case: Case, dtype: torch.dtype = torch.float64) -> Readout:
        return case.make(case.d, N).to(dtype)

    def test_it_states_its_facts(self, way: str, case: Case) -> None:
        readout = self.make(case)
        assert isinstance(readout, Aggregation)
        assert readout.injective in ("yes", "almost everywhere", "no")
        assert readout.permutation_invariant is case.invariant
        assert isinstance(readout.lipschitz, bool)
        assert isinstance(readout.bi_lipschitz, bool)
        assert readout.lipschitz or not readout.bi_lipschitz
        facts = (readout.formula, readout.dimension, readout.cost, readout.reference)
        assert all(isinstance(fact, str) and fact for fact in facts)

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_its_values_are_those_of_the_formula(self, way: str, case: Case, dtype: torch.dtype) -> None:
        readout, x = self.make(case, dtype), sample(case, dtype)
        out = readout(x, ptr=PTR)
        assert out.shape == (len(SIZES), readout.out_channels) and out.dtype == dtype
        assert out.abs().max() > 0.1
        torch.testing.assert_close(out.double(), expected(case, readout, x), **TOLERANCE[dtype])

    def test_its_gradients_are_finite_differences(self, way: str, case: Case) -> None:
        readout, x = self.make(case), sample(case, seed=3).requires_grad_()
        names, weights = [name for name, _ in readout.named_parameters()], list(readout.parameters())

        def pooled(x: Tensor, *weights: Tensor) -> Tensor:
            return functional_call(readout, dict(zip(names, weights, strict=True)), (x,), {"ptr": PTR})

        assert torch.autograd.gradcheck(pooled, (x, *weights), atol=1e-6)

    def test_gradients_in_single_precision_are_those_in_double(self, way: str, case: Case) -> None:
        single = gradients(self.make(case, torch.float32), sample(case, torch.float32))
        double = gradients(self.make(case), sample(case))
        assert double[0].abs().max() > 0.01
        torch.testing.assert_close([gradient.double() for gradient in single], double, rtol=1e-3, atol=1e-3)

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_the_order_of_rows_matters_only_where_it_says_so(self, way: str, case: Case, dtype: torch.dtype) -> None:
        readout, x = self.make(case, dtype), sample(case, dtype)
        same = torch.allclose(readout(x, ptr=PTR), readout(shuffled(x), ptr=PTR), **TOLERANCE[dtype])
        assert same == case.invariant

    def test_the_order_of_tied_rows_matters_only_where_it_says_so(self, way: str, case: Case) -> None:
        readout = self.make(case)
        x = torch.tensor([[1.0, 2.0], [3.0, 2.0], [0.0, 2.0], [3.0, 2.0], [-1.0, 2.0]], dtype=torch.float64)
        x = x[:, : case.d]
        there, back = readout(x), readout(x.flip(0))
        assert torch.allclose(there, back, rtol=1e-9, atol=1e-12) == case.invariant

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_a_graph_gets_the_same_numbers_alone_and_in_a_batch(self, way: str, case: Case, dtype: torch.dtype) -> None:
        readout, x = self.make(case, dtype), sample(case, dtype)
        batched = readout(x, ptr=PTR)
        for graph, block in enumerate(x.split(SIZES)):
            torch.testing.assert_close(readout(block)[0], batched[graph], **TOLERANCE[dtype])

    def test_a_graph_of_one_node(self, way: str, case: Case) -> None:
        readout, x = self.make(case), sample(case)[:1]
        out = readout(x)
        assert out.shape == (1, readout.out_channels)
        np.testing.assert_allclose(out[0].detach(), case.formula(readout, x.numpy()), rtol=1e-9, atol=1e-12)

    def test_graphs_without_nodes(self, way: str, case: Case) -> None:
        readout, nothing = self.make(case), sample(case)[:0]
        out = readout(nothing, ptr=torch.tensor([0, 0, 0])).detach()
        assert out.shape == (2, readout.out_channels)
        assert bool((out == 0).all()) == case.zero_if_empty
        np.testing.assert_allclose(out[1], case.formula(readout, nothing.numpy()), rtol=1e-9, atol=1e-12)
        assert readout(nothing, ptr=torch.tensor([0])).shape == (0, readout.out_channels)

    def test_graphs_may_be_given_by_index_or_ptr(self, way: str, case: Case) -> None:
        readout, x = self.make(case), sample(case)
        by_ptr = readout(x, ptr=PTR)
        assert torch.equal(by_ptr, readout(x, INDEX))
        assert torch.equal(by_ptr, readout(x, INDEX, ptr=PTR, dim_size=len(SIZES), dim=0))
        with_empty = readout(x, INDEX, dim_size=len(SIZES) + 1)
        torch.testing.assert_close(with_empty[:-1], by_ptr)
        torch.testing.assert_close(with_empty[-1], by_ptr[SIZES.index(0)])

    def test_hooks_fire(self, way: str, case: Case) -> None:
        readout, seen = self.make(case), []
        readout.register_forward_pre_hook(lambda *given: seen.append("before"))
        readout.register_forward_hook(lambda *given: seen.append("after"))
        readout.register_full_backward_hook(lambda *given: seen.append("back"))
        readout(sample(case).requires_grad_(), ptr=PTR).sum().backward()
        assert seen == ["before", "after", "back"]
        readout.register_forward_hook(lambda module, given, out: out + 1)
        torch.testing.assert_close(readout(sample(case), ptr=PTR), self.make(case)(sample(case), ptr=PTR) + 1)

    def test_gradients_of_zero_rows_stay_small(self, way: str, case: Case) -> None:
        x = torch.zeros(sum(SIZES), case.d, dtype=torch.float64, requires_grad=True)
        self.make(case)(x, ptr=PTR).sum().backward()
        assert x.grad.abs().max() < 1000  # false for NaN too

    def test_the_same_numbers_every_time(self, way: str, case: Case) -> None:
        x = sample(case, torch.float32)
        first, second = (self.make(case, torch.float32)(x, ptr=PTR) for _ in range(2))
        assert torch.equal(first, second)

    def test_it_can_be_trained_after_it_served_inference(self, way: str, case: Case) -> None:
        unused_size = N + 3 + list(WAYS).index(way)  # no other test has filled a cache for it
        readout = case.make(case.d, unused_size).double()
        with torch.inference_mode():
            expected = readout(sample(case), ptr=PTR)
        out = readout(sample(case).requires_grad_(), ptr=PTR)
        out.sum().backward()
        assert torch.equal(out, expected)

    def test_it_survives_a_state_dict(self, way: str, case: Case) -> None:
        readout, other = self.make(case), self.make(case)
        expected = readout(sample(case), ptr=PTR)
        for tensor in other.state_dict().values():
            tensor.zero_()
        assert torch.equal(readout(sample(case), ptr=PTR), expected)  # two readouts share no memory
        other.load_state_dict(readout.state_dict())
        assert torch.equal(other(sample(case), ptr=PTR), expected)

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_it_refuses_what_is_not_finite(self, way: str, case: Case, value: float) -> None:
        x = sample(case)
        x[4, 0] = value
        with pytest.raises(ReadoutError, match=rf"x\[4, 0\] is {value}.*not finite"):
            self.make(case)(x, ptr=PTR)

    def test_it_takes_finite_values_whose_sum_overflows(self, way: str, case: Case) -> None:
        x = torch.full((2, case.d), 3e38, dtype=torch.float32)
        assert self.make(case, torch.float32)(x).shape[0] == 1

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda r, x: r(x, INDEX.flip(0)), r"not sorted.*index\[4\] = 3 .*4"),
            (lambda r, x: r(x, INDEX[:-1]), r"index.*\[12\].*\[13\]"),
            (lambda r, x: r(x, INDEX - 1), r"index\[0\] is -1"),
            (lambda r, x: r(x, INDEX, dim_size=2), "dim_size is 2.*index.*graph 4"),
            (lambda r, x: r(x, ptr=PTR, dim_size=2), "dim_size is 2.*ptr.*5 graphs"),
            (lambda r, x: r(x, ptr=PTR[:-1]), "ptr.*0 to 9.*13 rows"),
            (lambda r, x: r(x, ptr=torch.tensor([0, 5, 3, 13])), "ptr falls by 2"),
            (lambda r, x: r(x, ptr=PTR.float()), "ptr is torch.float32"),
            (lambda r, x: r(x[:, 0], ptr=PTR), r"1 dimensions.*\[13\]"),
            (lambda r, x: r(x.repeat(1, 3), ptr=PTR), r"x has \d columns.*d = \d"),
            (lambda r, x: r(x.long(), ptr=PTR), "x is torch.int64"),
            (lambda r, x: r(x, ptr=PTR, dim=-1), "dim is -1"),
        ],
    )
    def test_it_refuses_a_bad_call_in_one_line(
        self, way: str, case: Case, call: Callable[[Readout, Tensor], Tensor], message: str
    ) -> None:
        with pytest.raises(ReadoutError, match=message) as caught:
            call(self.make(case), sample(case))
        assert "\n" not in str(caught.value)

    def test_it_refuses_a_graph_beyond_max_nodes(self, way: str, case: Case) -> None:
        readout = self.make(case)
        if readout.max_nodes is None:
            assert readout(sample(case)[:6]).shape[0] == 1
            return
        with pytest.raises(ReadoutError, match="6 nodes.*max_nodes = 5"):
            readout(sample(case)[:6])


ROW_RUNS = [(way, case) for way, case in RUNS if case.has_rows]


@pytest.mark.parametrize(("way", "case"), ROW_RUNS, ids=str, indirect=["way"])
class TestRows:
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_the_output_is_the_rows_padded(self, way: str, case: Case, dtype: torch.dtype) -> None:
        readout, x = case.make(case.d, N).to(dtype), sample(case, dtype)
        rows = readout(x, ptr=PTR, padded=False)
        assert rows.shape == (sum(SIZES), readout.row_channels)
        padded = torch.zeros(len(SIZES), N, readout.row_channels, dtype=dtype)
        for graph, block in enumerate(rows.split(SIZES)):
            padded[graph, : len(block)] = block
        assert torch.equal(readout(x, ptr=PTR), padded.flatten(1))

    def test_the_input_is_checked_without_padding_too(self, way: str, case: Case) -> None:
        readout, x = case.make(case.d, N), sample(case)
        with pytest.raises(ReadoutError, match="13 nodes"):
            readout(x, padded=False)
        x[0, 1] = float("nan")
        with pytest.raises(ReadoutError, match="not finite"):
            readout(x, ptr=PTR, padded=False)

    def test_gradients_of_the_rows(self, way: str, case: Case) -> None:
        readout, x = case.make(case.d, N).double(), sample(case, seed=5).requires_grad_()
        assert torch.autograd.gradcheck(lambda value: readout(value, ptr=PTR, padded=False), (x,))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rows_are_offered_only_where_they_are_the_whole_output(case: Case) -> None:
    assert gives_rows(case.make(case.d, N)) == case.has_rows


def test_without_validation_values_are_not_checked() -> None:
    case = CASES[0]
    readout, x = case.make(case.d, N), sample(case)
    readout.validate = False
    x[0, 0] = float("nan")
    assert readout(x, ptr=PTR).isnan().any()
    with pytest.raises(ReadoutError, match="4 columns.*d = 2"):  # shapes are always checked
        readout(x.repeat(1, 2), ptr=PTR)
