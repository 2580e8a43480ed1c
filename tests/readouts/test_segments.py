import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from permlab.readouts.segments import (
    descending_order,
    flat_padded,
    lexicographic_order,
    rearranged,
    segment_ids,
    segment_sum,
    sort_columns,
    sort_with_sum,
)

SIZES = st.lists(st.integers(0, 9), min_size=1, max_size=12)
FEW_VALUES = st.sampled_from([-1.5, -0.0, 0.0, 1e-38, 2.0, 3.4e38, -3.4e38])


def pointers(sizes: list[int]) -> torch.Tensor:
    return torch.tensor([0, *np.cumsum(sizes)], dtype=torch.int64)


@settings(max_examples=100, deadline=None)
@given(st.data(), SIZES, st.integers(1, 4), st.sampled_from([torch.float32, torch.float64]))
def test_columns_are_sorted_as_numpy_sorts_each_graph(data, sizes: list[int], k: int, dtype: torch.dtype) -> None:
    n = sum(sizes)
    values = data.draw(st.lists(st.lists(FEW_VALUES, min_size=n, max_size=n), min_size=k, max_size=k))
    columns = torch.tensor(values, dtype=dtype).reshape(k, n)
    ours = sort_columns(columns, pointers(sizes))
    starts = np.cumsum(sizes)[:-1]
    theirs = [np.sort(block, axis=1)[:, ::-1] for block in np.split(columns.numpy(), starts, axis=1)]
    assert np.array_equal(ours.numpy(), np.concatenate(theirs, axis=1))


@pytest.mark.parametrize("n", [1, 100, 5000])
def test_both_sorts_give_one_permutation(n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    columns = torch.randint(-3, 3, (3, n), generator=generator).float()  # many ties: both keep the input order
    sizes = torch.bincount(torch.randint(0, 7, (n,), generator=generator), minlength=9)  # the last two are empty
    assert torch.equal(descending_order(columns, sizes), descending_order(columns.double(), sizes))


def test_graphs_of_every_size_class_at_once() -> None:
    sizes = torch.tensor([1, 31, 32, 33, 0, 64, 65, 257, 1000, 2, 1025, 3000])
    columns = torch.randn(3, int(sizes.sum()), generator=torch.Generator().manual_seed(0))
    columns[0, ::7], columns[1, ::5] = float("inf"), float("-inf")
    columns[2] = columns[2].round() + 0.0  # many ties, none between 0 and −0
    assert torch.equal(descending_order(columns, sizes), descending_order(columns.double(), sizes))


@settings(max_examples=100, deadline=None)
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


def test_second_derivatives_pass_through_the_sort() -> None:
    columns = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    ptr = pointers([2, 3])
    assert torch.autograd.gradgradcheck(lambda value: sort_columns(value, ptr).square(), (columns,))


def test_rearranged_rows_take_their_gradients_back() -> None:
    x = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    order = torch.randperm(7)
    assert torch.equal(rearranged(x, order), x[order])
    assert torch.autograd.gradcheck(lambda rows: rearranged(rows, order), (x,))
    assert torch.autograd.gradgradcheck(lambda rows: rearranged(rows, order), (x,))


def test_second_derivatives_pass_through_the_sort_with_its_sum() -> None:
    x = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda rows: sort_with_sum(rows, pointers([2, 3])), (x,))
