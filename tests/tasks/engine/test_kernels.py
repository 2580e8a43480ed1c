"""The compiled kernels of the operators agree bit for bit with the plain definitions."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from permlab.readouts import segment_sort as operators
from permlab.tasks.engine.kernels import register
from permlab.tasks.engine.network import GIANT


@pytest.fixture(autouse=True, scope="module")
def compiled_kernels() -> None:
    register()


def batch(sizes: list[int], k: int, dtype: torch.dtype, ties: bool, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(sum(sizes), k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x = (2 * x).round() / 2 if ties else x  # −0.0 and 0.0 among them
    return x.to(dtype), torch.tensor([0, *np.cumsum(sizes)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("ties", [True, False])
@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    k=st.sampled_from([1, 2, 8, 11]),
    seed=st.integers(0, 99),
)
def test_they_agree_to_the_last_bit(ties: bool, dtype: torch.dtype, sizes: list[int], k: int, seed: int) -> None:
    x, ptr = batch(sizes, k, dtype, ties, seed)
    values, rows = operators.segment_sort(x, ptr)
    expected, expected_rows = operators.plain_segment_sort(x, ptr)
    assert torch.equal(rows, expected_rows) and torch.equal(values.signbit(), expected.signbit())
    assert torch.equal(values, expected)
    assert torch.equal(operators.segment_unsort(values, rows), x)
    assert torch.equal(operators.lexicographic_order(x, ptr), operators.plain_lexicographic_order(x, ptr))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [1, 3, 11])
def test_a_giant_graph_among_small_ones(k: int, dtype: torch.dtype) -> None:
    x, ptr = batch([3, GIANT + 50, 7], k, dtype, ties=True)
    for mine, plain in zip(operators.segment_sort(x, ptr), operators.plain_segment_sort(x, ptr), strict=True):
        assert torch.equal(mine, plain)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_torch_finds_nothing_wrong_with_them(dtype: torch.dtype) -> None:
    x, ptr = batch([4, 0, 9], 3, dtype, ties=False)
    rows = operators.segment_sort(x, ptr)[1]
    torch.library.opcheck(operators.segment_sort, (x.requires_grad_(), ptr))
    torch.library.opcheck(operators.segment_unsort, (x, rows))
    torch.library.opcheck(operators.lexicographic_order, (x.detach(), ptr))


def test_input_that_is_not_contiguous() -> None:
    x, ptr = batch([4, 6], 6, torch.float32, ties=False)
    for strided in (x[:, ::2], x.T.contiguous().T):
        for mine, plain in zip(
            operators.segment_sort(strided, ptr), operators.plain_segment_sort(strided, ptr), strict=True
        ):
            assert torch.equal(mine, plain)


def test_bounds_out_of_range_are_refused() -> None:
    x = torch.randn(10, 9)
    for ptr in ([0, 100, 10], [0, 9], [1, 10]):
        for operator in (operators.segment_sort, operators.lexicographic_order):
            with pytest.raises(IndexError, match="from 0 to the number of rows"):
                operator(x, torch.tensor(ptr))
    with pytest.raises(IndexError, match="rows outside"):
        operators.segment_unsort(x, torch.full((10, 9), 10, dtype=torch.int32))
