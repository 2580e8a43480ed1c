"""What every readout promises, whichever it is."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

from permlab.readouts.base import RowReadout
from permlab.readouts.catalogue import CATALOGUE, build
from permlab.readouts.errors import ReadoutError
from permlab.readouts.keys import full_spark

N = 5
SIZES = (3, 1, 0, 5, 4)
PTR = torch.tensor([0, *np.cumsum(SIZES)])
INDEX = torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES))
CASES = [
    *((name, {}) for name in CATALOGUE),
    ("ordering", {"key": full_spark(2, 7)}),
    ("kernels", {"normalise": False, "mean": True, "sigma": 2.0}),
    ("reduced", {"trainable": True}),
    ("set2set", {"steps": 1}),
]
ROW_METHODS = ("ordering", "identity", "augment", "sort")


def width(method: str) -> int:
    return 1 if method == "power_sums" else 2


def sample(method: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sum(SIZES), width(method), generator=generator, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize(("method", "options"), CASES, ids=[f"{m}{'-' + '-'.join(o) if o else ''}" for m, o in CASES])
class TestContract:
    def make(self, method: str, options: dict, dtype: torch.dtype = torch.float64) -> torch.nn.Module:
        return build(method, d=width(method), max_nodes=N, **options).to(dtype)

    def test_facts(self, method: str, options: dict) -> None:
        readout = self.make(method, options)
        assert isinstance(readout, Aggregation)
        assert readout.injective in ("yes", "almost everywhere", "no")
        assert isinstance(readout.permutation_invariant, bool)
        assert isinstance(readout.lipschitz, bool)
        assert isinstance(readout.bi_lipschitz, bool)
        assert readout.lipschitz or not readout.bi_lipschitz
        assert all(isinstance(fact, str) and fact for fact in (readout.formula, readout.cost, readout.reference))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_shape_and_dtype(self, method: str, options: dict, dtype: torch.dtype) -> None:
        readout = self.make(method, options, dtype)
        out = readout(sample(method, dtype), ptr=PTR)
        assert out.shape == (len(SIZES), readout.out_channels)
        assert out.dtype == dtype
        assert torch.isfinite(out).all()

    def test_single_and_double_precision_agree(self, method: str, options: dict) -> None:
        single = self.make(method, options, torch.float32)(sample(method, torch.float32), ptr=PTR)
        double = self.make(method, options)(sample(method, torch.float32).double(), ptr=PTR)
        torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-4)

    def test_row_order(self, method: str, options: dict) -> None:
        readout, x = self.make(method, options), sample(method)
        generator = torch.Generator().manual_seed(1)
        shuffled = torch.cat([block[torch.randperm(len(block), generator=generator)] for block in x.split(SIZES)])
        same = torch.allclose(readout(x, ptr=PTR), readout(shuffled, ptr=PTR), rtol=1e-9, atol=1e-12)
        assert same == readout.permutation_invariant

    def test_row_order_with_ties(self, method: str, options: dict) -> None:
        readout = self.make(method, options)
        x = torch.tensor([[1.0, 2.0], [3.0, 2.0], [0.0, 2.0], [3.0, 2.0], [-1.0, 2.0]], dtype=torch.float64)
        x = x[:, : width(method)]
        there, back = readout(x), readout(x.flip(0))
        assert torch.allclose(there, back, rtol=1e-9, atol=1e-12) == readout.permutation_invariant

    def test_alone_or_in_a_batch(self, method: str, options: dict) -> None:
        readout, x = self.make(method, options), sample(method)
        batched = readout(x, ptr=PTR)
        for graph, block in enumerate(x.split(SIZES)):
            torch.testing.assert_close(readout(block)[0], batched[graph], rtol=1e-9, atol=1e-12)

    def test_one_node(self, method: str, options: dict) -> None:
        out = self.make(method, options)(sample(method)[:1])
        assert out.shape[0] == 1 and torch.isfinite(out).all()

    def test_empty_graphs(self, method: str, options: dict) -> None:
        readout = self.make(method, options)
        nothing = sample(method)[:0]
        out = readout(nothing, ptr=torch.tensor([0, 0, 0]))
        assert out.shape == (2, readout.out_channels) and torch.isfinite(out).all()
        assert readout(nothing, ptr=torch.tensor([0])).shape == (0, readout.out_channels)
        if method != "set2set":  # its LSTM has a bias
            assert not out.any()

    def test_index_or_ptr(self, method: str, options: dict) -> None:
        readout, x = self.make(method, options), sample(method)
        by_ptr = readout(x, ptr=PTR)
        assert torch.equal(by_ptr, readout(x, INDEX))
        assert torch.equal(by_ptr, readout(x, INDEX, ptr=PTR, dim_size=len(SIZES), dim=0))
        with_empty = readout(x, INDEX, dim_size=len(SIZES) + 1)
        torch.testing.assert_close(with_empty[:-1], by_ptr)
        torch.testing.assert_close(with_empty[-1], by_ptr[SIZES.index(0)])

    def test_gradient(self, method: str, options: dict) -> None:
        readout = self.make(method, options)
        x = sample(method, seed=3).requires_grad_()
        assert torch.autograd.gradcheck(lambda value: readout(value, ptr=PTR), (x,), atol=1e-6)

    def test_gradient_of_zero_rows_stays_small(self, method: str, options: dict) -> None:
        x = torch.zeros(sum(SIZES), width(method), dtype=torch.float64, requires_grad=True)
        self.make(method, options)(x, ptr=PTR).sum().backward()
        assert x.grad.abs().max() < 1000  # nor NaN: it compares false

    def test_same_numbers_every_time(self, method: str, options: dict) -> None:
        x = sample(method, torch.float32)
        first = self.make(method, options, torch.float32)(x, ptr=PTR)
        assert torch.equal(first, self.make(method, options, torch.float32)(x, ptr=PTR))

    def test_survives_a_state_dict(self, method: str, options: dict) -> None:
        readout, other = self.make(method, options), self.make(method, options)
        for tensor in other.state_dict().values():
            tensor.zero_()
        other.load_state_dict(readout.state_dict())
        assert torch.equal(readout(sample(method), ptr=PTR), other(sample(method), ptr=PTR))

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_refuses_what_is_not_finite(self, method: str, options: dict, value: float) -> None:
        x = sample(method)
        x[4, 0] = value
        with pytest.raises(ReadoutError, match=rf"x\[4, 0\] is {value}.*not finite"):
            self.make(method, options)(x, ptr=PTR)

    def test_takes_finite_values_whose_sum_overflows(self, method: str, options: dict) -> None:
        x = torch.full((2, width(method)), 3e38, dtype=torch.float32)
        assert self.make(method, options, torch.float32)(x).shape[0] == 1

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda r, x: r(x, INDEX.flip(0)), r"index is not sorted: index\[4\] = 3 comes after 4"),
            (lambda r, x: r(x, INDEX[:-1]), r"index is torch.int64 of shape \[12\]; it must be int64 \[13\]"),
            (lambda r, x: r(x, INDEX - 1), r"index\[0\] is -1"),
            (lambda r, x: r(x, INDEX, dim_size=2), "dim_size is 2, but index names graph 4"),
            (lambda r, x: r(x, ptr=PTR, dim_size=2), "dim_size is 2, but ptr tells of 5 graphs"),
            (lambda r, x: r(x, ptr=PTR[:-1]), "ptr goes from 0 to 9, but x has 13 rows"),
            (lambda r, x: r(x, ptr=torch.tensor([0, 5, 3, 13])), "ptr falls by 2"),
            (lambda r, x: r(x, ptr=PTR.float()), "ptr is torch.float32"),
            (lambda r, x: r(x[:, 0], ptr=PTR), r"x has 1 dimensions, shape \[13\]"),
            (lambda r, x: r(x.repeat(1, 3), ptr=PTR), r"x has \d columns, but the readout was built for d = "),
            (lambda r, x: r(x.long(), ptr=PTR), "x is torch.int64"),
            (lambda r, x: r(x, ptr=PTR, dim=-1), "dim is -1"),
        ],
    )
    def test_refuses_a_bad_call_in_one_line(self, method: str, options: dict, call, message: str) -> None:
        with pytest.raises(ReadoutError, match=message) as caught:
            call(self.make(method, options), sample(method))
        assert "\n" not in str(caught.value)

    def test_refuses_a_graph_beyond_max_nodes(self, method: str, options: dict) -> None:
        readout = self.make(method, options)
        if readout.max_nodes is None:
            assert readout(sample(method)[:6]).shape[0] == 1
            return
        with pytest.raises(ReadoutError, match="a graph has 6 nodes, but the readout was built for max_nodes = 5"):
            readout(sample(method)[:6])


@pytest.mark.parametrize("method", ROW_METHODS)
class TestRows:
    def test_forward_is_rows_padded(self, method: str) -> None:
        readout, x = build(method, d=2, max_nodes=N), sample(method)
        assert isinstance(readout, RowReadout)
        rows = readout.rows(x, PTR)
        assert rows.shape == (sum(SIZES), readout.row_channels)
        padded = torch.zeros(len(SIZES), N, readout.row_channels, dtype=x.dtype)
        for graph, block in enumerate(rows.split(SIZES)):
            padded[graph, : len(block)] = block
        assert torch.equal(readout(x, ptr=PTR), padded.flatten(1))

    def test_rows_check_their_input(self, method: str) -> None:
        readout, x = build(method, d=2, max_nodes=N), sample(method)
        with pytest.raises(ReadoutError, match="a graph has 13 nodes"):
            readout.rows(x, torch.tensor([0, 13]))
        x[0, 1] = float("nan")
        with pytest.raises(ReadoutError, match="not finite"):
            readout.rows(x, PTR)

    def test_gradient(self, method: str) -> None:
        readout, x = build(method, d=2, max_nodes=N), sample(method, seed=5).requires_grad_()
        assert torch.autograd.gradcheck(lambda value: readout.rows(value, PTR), (x,))
