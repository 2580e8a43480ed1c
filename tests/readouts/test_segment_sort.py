"""The operators against sorting graph by graph, and against PyTorch's own checks of operators."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from permlab.readouts.segment_sort import lexicographic_order, segment_sort, segment_unsort, sort_rows

pytestmark = pytest.mark.usefixtures("way")
SIZES = st.lists(st.integers(0, 9), min_size=1, max_size=12)
DTYPES = [torch.float32, torch.float64]
OPERATORS = ["segment_sort", "segment_unsort", "lexicographic_order"]
FEW_VALUES = st.sampled_from([-1.5, -0.0, 0.0, 1e-38, 1e-45, 2.0, 3.4e38, -3.4e38, float("inf"), float("-inf")])
MANY = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


def pointers(sizes: list[int]) -> Tensor:
    return torch.tensor([0, *np.cumsum(sizes)], dtype=torch.int64)


def graph_by_graph(x: Tensor, sizes: list[int]) -> tuple[list[list[float]], list[list[int]]]:
    """Python's own sort, which is stable: the columns' values, and the rows that they came from."""
    n, k = x.shape
    values, rows = [[0.0] * k for _ in range(n)], [[0] * k for _ in range(n)]
    table, start = x.tolist(), 0
    for size in sizes:
        for j in range(k):
            order = sorted(range(start, start + size), key=lambda i, j=j: -table[i][j])
            for place, row in enumerate(order, start):
                values[place][j], rows[place][j] = table[row][j], row
        start += size
    return values, rows


@MANY
@given(st.data(), SIZES, st.integers(1, 6), st.sampled_from(DTYPES))
def test_columns_are_sorted_as_python_sorts_each_graph(
    data: st.DataObject, sizes: list[int], k: int, dtype: torch.dtype
) -> None:
    """Ties, −0 among 0, infinities and graphs without nodes included."""
    n = sum(sizes)
    drawn = data.draw(st.lists(st.lists(FEW_VALUES, min_size=k, max_size=k), min_size=n, max_size=n))
    x = torch.tensor(drawn, dtype=dtype).reshape(n, k)
    values, rows = segment_sort(x, pointers(sizes))
    expected_values, expected_rows = graph_by_graph(x, sizes)
    assert rows.dtype == torch.int32 and values.dtype == dtype
    assert rows.tolist() == expected_rows
    assert values.tolist() == expected_values
    assert torch.equal(values.signbit(), values < 0)  # −0 becomes 0
    assert torch.equal(segment_unsort(values, rows), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_graphs_of_every_size_at_once(dtype: torch.dtype) -> None:
    sizes = [*range(40), 64, 65, 257, 1000, 1024, 1025, 3000]
    x = torch.randn(sum(sizes), 9, generator=torch.Generator().manual_seed(0)).to(dtype)
    x[::7, 0], x[::5, 1], x[:, 2] = float("inf"), float("-inf"), x[:, 2].round()
    values, rows = segment_sort(x, pointers(sizes))
    expected = [torch.sort(part, dim=0, descending=True, stable=True) for part in x.split(sizes)]
    assert torch.equal(values, torch.cat([part.values for part in expected]))
    starts = pointers(sizes)[:-1].tolist()
    expected_rows = [part.indices + start for part, start in zip(expected, starts, strict=True)]
    assert torch.equal(rows, torch.cat(expected_rows).int())


def test_a_transposed_matrix_is_sorted_as_its_copy() -> None:
    x, ptr = torch.randn(3, 8, generator=torch.Generator().manual_seed(0)).T, pointers([5, 3])
    for ours, theirs in zip(segment_sort(x, ptr), segment_sort(x.contiguous(), ptr), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(lexicographic_order(x, ptr), lexicographic_order(x.contiguous(), ptr))


@MANY
@given(st.data(), SIZES, st.integers(1, 4), st.sampled_from(DTYPES))
def test_lexicographic_order_is_pythons(data: st.DataObject, sizes: list[int], d: int, dtype: torch.dtype) -> None:
    n, entry = sum(sizes), st.sampled_from([-1.0, -0.0, 0.0, 1.0, float("inf")])
    x = data.draw(st.lists(st.tuples(*[entry] * d), min_size=n, max_size=n))
    ours = lexicographic_order(torch.tensor(x, dtype=dtype).reshape(n, d), pointers(sizes))
    theirs, start = [], 0
    for size in sizes:
        theirs += sorted(range(start, start + size), key=lambda i: tuple(-value for value in x[i][::-1]))
        start += size
    assert ours.dtype == torch.int64 and ours.tolist() == theirs


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", [[3, 0, 4], [0, 0]], ids=str)
@pytest.mark.parametrize("operator", [segment_sort, segment_unsort, lexicographic_order], ids=OPERATORS)
def test_pytorch_finds_nothing_wrong_with_the_operators(operator: Any, sizes: list[int], dtype: torch.dtype) -> None:
    x = torch.randn(sum(sizes), 3, generator=torch.Generator().manual_seed(0)).to(dtype)
    arguments: tuple[Tensor, ...] = (x, pointers(sizes))
    if operator is segment_unsort:
        arguments = segment_sort(*arguments)
    checks = torch.library.opcheck(operator, arguments)
    if operator is not lexicographic_order:  # it has no gradient
        checks |= torch.library.opcheck(operator, (arguments[0].requires_grad_(), arguments[1]))
    assert set(checks.values()) == {"SUCCESS"}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_gradient_is_that_of_sorting_graph_by_graph(dtype: torch.dtype) -> None:
    generator, sizes = torch.Generator().manual_seed(0), [0, 5, 1, 30, 1100]
    x, weights = (torch.randn(sum(sizes), 9, generator=generator).to(dtype) for _ in range(2))
    gradients = []
    for by_graph in (False, True):
        rows = x.clone().requires_grad_()
        parts = [part.sort(dim=0, descending=True).values for part in rows.split(sizes)]
        ordered = torch.cat(parts) if by_graph else sort_rows(rows, pointers(sizes))
        gradients += torch.autograd.grad((ordered * weights).sum(), rows)
    assert torch.equal(*gradients)


def test_second_derivatives_pass_through_the_sort() -> None:
    x = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda rows: sort_rows(rows, pointers([2, 3])).square(), (x,))
