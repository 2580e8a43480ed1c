"""permlab::neighbour_sum against a dense product, and against PyTorch's own checks of operators."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from torch import Tensor

from permlab.datasets.neighbours import neighbour_sum

DTYPES = [torch.float32, torch.float64]


def csr(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    sparse = csr_array(matrix.numpy())
    return torch.from_numpy(sparse.indptr).int(), torch.from_numpy(sparse.indices).int(), torch.from_numpy(sparse.data)


def sample(rows: int, columns: int, k: int, dtype: torch.dtype, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A [rows, columns], not symmetric, with empty rows, and H [columns, k]."""
    generator = torch.Generator().manual_seed(seed)
    dense = torch.randn(rows, columns, generator=generator) * (torch.rand(rows, columns, generator=generator) < 0.4)
    return dense.to(dtype), torch.randn(columns, k, generator=generator).to(dtype)


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 5), st.sampled_from(DTYPES), st.integers(0, 1000))
def test_values_and_gradients_are_those_of_the_dense_product(
    rows: int, columns: int, k: int, dtype: torch.dtype, seed: int
) -> None:
    dense, h = sample(rows, columns, k, dtype, seed)
    h.requires_grad_()
    sparse, expected = neighbour_sum(h, *csr(dense), *csr(dense.T)), dense @ h
    torch.testing.assert_close(sparse, expected)
    direction = torch.randn(sparse.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    torch.testing.assert_close(*(torch.autograd.grad((out * direction).sum(), h)[0] for out in (sparse, expected)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_pytorch_finds_nothing_wrong_with_the_operator(dtype: torch.dtype, transposed: bool) -> None:
    dense, h = sample(6, 5, 3, dtype)
    h = h.T.contiguous().T if transposed else h
    rest = (*csr(dense), *csr(dense.T))
    for given_h in (h, h.clone(memory_format=torch.preserve_format).requires_grad_()):
        assert set(torch.library.opcheck(neighbour_sum, (given_h, *rest)).values()) == {"SUCCESS"}


def test_derivatives_of_second_order_pass_through() -> None:
    dense, h = sample(6, 5, 3, torch.float64)
    rest = (*csr(dense), *csr(dense.T))
    assert torch.autograd.gradgradcheck(lambda h: neighbour_sum(h, *rest).square(), (h.requires_grad_(),))
