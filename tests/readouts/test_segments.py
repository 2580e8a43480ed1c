import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from permlab.readouts.loops.network import sort_descending
from permlab.readouts.segments import (
    descending_order,
    flat_padded,
    lexicographic_order,
    rearranged,
    segment_ids,
    segment_sum,
    sort_rows,
)

SIZES = st.lists(st.integers(0, 9), min_size=1, max_size=12)
FEW_VALUES = st.sampled_from([-1.5, -0.0, 0.0, 1e-38, 2.0, 3.4e38, -3.4e38])


def pointers(sizes: list[int]) -> torch.Tensor:
    return torch.tensor([0, *np.cumsum(sizes)], dtype=torch.int64)


@settings(max_examples=100)
@given(st.data(), SIZES, st.integers(1, 18), st.sampled_from([torch.float32, torch.float64]))
def test_columns_are_sorted_as_numpy_sorts_each_graph(data, sizes: list[int], k: int, dtype: torch.dtype) -> None:
    n = sum(sizes)
    values = data.draw(st.lists(st.lists(FEW_VALUES, min_size=k, max_size=k), min_size=n, max_size=n))
    x = torch.tensor(values, dtype=dtype).reshape(n, k)
    ours = sort_rows(x, pointers(sizes))
    theirs = [np.sort(block, axis=0)[::-1] for block in np.split(x.numpy(), np.cumsum(sizes)[:-1])]
    assert np.array_equal(ours.numpy(), np.concatenate(theirs))


@pytest.mark.parametrize("n", [1, 100, 5000])
@pytest.mark.parametrize("k", [1, 3, 8, 13])
def test_both_sorts_give_one_permutation(n: int, k: int) -> None:
    generator = torch.Generator().manual_seed(n)
    x = torch.randint(-3, 3, (n, k), generator=generator).float()  # many ties: both keep the input order
    sizes = torch.bincount(torch.randint(0, 7, (n,), generator=generator), minlength=9)  # the last two are empty
    ptr = pointers(sizes.tolist())
    _, rows = sort_descending(x.numpy(), ptr.numpy())
    assert np.array_equal(rows, descending_order(x, ptr).numpy())


def test_graphs_of_every_size_at_once() -> None:
    sizes = [*range(40), 64, 65, 257, 1000, 1024, 1025, 3000]  # the last two are giants
    x = torch.randn(sum(sizes), 9, generator=torch.Generator().manual_seed(0))
    x[::7, 0], x[::5, 1] = float("inf"), float("-inf")
    x[:, 2] = x[:, 2].round() + 0.0  # many ties, none between 0 and −0
    ptr = pointers(sizes)
    _, rows = sort_descending(x.numpy(), ptr.numpy())
    assert np.array_equal(rows, descending_order(x, ptr).numpy())
    assert torch.equal(sort_rows(x, ptr), sort_rows(x.double(), ptr).float())


def test_rows_that_ptr_does_not_cover_are_refused() -> None:
    with pytest.raises(ValueError, match="ptr ends at 3, x has 4 rows"):
        sort_rows(torch.zeros(4, 2), pointers([3]))


@pytest.mark.parametrize("with_sum", [False, True])
def test_the_fast_sort_has_the_plain_ones_gradient(with_sum: bool) -> None:
    generator, sizes = torch.Generator().manual_seed(0), [0, 5, 1, 30, 1100]
    x = torch.randn(sum(sizes), 9, generator=generator)
    weights = torch.randn(sum(sizes), 9 + with_sum, generator=generator)
    gradients = []
    for dtype in (torch.float32, torch.float64):
        rows = x.detach().to(dtype).requires_grad_()
        (sort_rows(rows, pointers(sizes), with_sum) * weights.to(dtype)).sum().backward()
        gradients.append(rows.grad.double())
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-5, rtol=1e-5)


@settings(max_examples=100)
@given(st.data(), SIZES, st.integers(1, 4))
def test_lexicographic_order_is_pythons(data, sizes: list[int], d: int) -> None:
    n = sum(sizes)
    entry = st.sampled_from([-1.0, 0.0, 1.0])
    x = data.draw(st.lists(st.tuples(*[entry] * d), min_size=n, max_size=n))
    matrix = torch.tensor(x, dtype=torch.float32).reshape(n, d)
    ours = matrix[lexicographic_order(matrix, pointers(sizes))]
    theirs, start = [], 0
    for size in sizes:
        theirs += sorted(x[start : start + size], key=lambda row: row[::-1], reverse=True)
        start += size
    assert ours.tolist() == [list(row) for row in theirs]


def test_sums_padding_and_ids() -> None:
    x, ptr = torch.arange(8.0).view(4, 2), pointers([1, 0, 3])
    assert segment_ids(ptr).tolist() == [0, 2, 2, 2]
    assert segment_sum(x, ptr).tolist() == [[0, 1], [0, 0], [12, 15]]
    padded = [[0, 1, 0, 0, 0, 0], [0] * 6, [2, 3, 4, 5, 6, 7]]
    assert flat_padded(x, ptr, 3).tolist() == padded


def test_equal_sums_tie_in_any_order_of_rows() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(900, 3, generator=generator)
    orders = torch.cat([torch.randperm(900, generator=generator) for _ in range(20)])
    with torch.no_grad():
        sums = segment_sum(x[orders], pointers([900] * 20))
    assert (sums == sums[0]).all()
    torch.testing.assert_close(sums[0], segment_sum(x, pointers([900]))[0], atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("with_sum", [False, True])
def test_second_derivatives_pass_through_the_sort(with_sum: bool) -> None:
    x = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda rows: sort_rows(rows, pointers([2, 3]), with_sum).square(), (x,))


def test_rearranged_rows_take_their_gradients_back() -> None:
    x = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    order = torch.randperm(7)
    assert torch.equal(rearranged(x, order), x[order])
    assert torch.autograd.gradcheck(lambda rows: rearranged(rows, order), (x,))
    assert torch.autograd.gradgradcheck(lambda rows: rearranged(rows, order), (x,))


def test_a_second_derivative_in_single_precision_is_refused_not_wrong() -> None:
    x, ptr = torch.randn(5, 2, requires_grad=True), pointers([2, 3])
    for out in (sort_rows(x, ptr), flat_padded(x, ptr, 3)):
        (first,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            first.sum().backward()
