import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from permlab.readouts.segments import flat_padded, segment_ids, segment_sum


def test_ids_sums_and_padding() -> None:
    x, ptr = torch.arange(8.0).view(4, 2), torch.tensor([0, 1, 1, 4])
    assert segment_ids(ptr, 4).tolist() == [0, 2, 2, 2]
    assert segment_sum(x, ptr).tolist() == [[0, 1], [0, 0], [12, 15]]
    assert flat_padded(x, ptr, 3).tolist() == [[0, 1, 0, 0, 0, 0], [0] * 6, [2, 3, 4, 5, 6, 7]]


@given(st.lists(st.integers(0, 6), max_size=7), st.integers(1, 3), st.integers(0, 3))
def test_they_agree_with_a_loop_over_the_graphs(sizes: list[int], k: int, spare: int) -> None:
    ptr = torch.tensor([0, *np.cumsum(sizes)], dtype=torch.int64)
    x = torch.randn(sum(sizes), k, dtype=torch.float64, generator=torch.Generator().manual_seed(k))
    longest = max(sizes, default=0) + spare
    sums, padded = torch.zeros(len(sizes), k, dtype=x.dtype), torch.zeros(len(sizes), longest, k, dtype=x.dtype)
    for graph, rows in enumerate(x.split(sizes) if sizes else []):
        sums[graph], padded[graph, : len(rows)] = rows.sum(0), rows
    torch.testing.assert_close(segment_sum(x, ptr), sums)
    assert torch.equal(flat_padded(x, ptr, longest), padded.flatten(1))


def test_derivatives_of_any_order_pass_through() -> None:
    x = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    ptr = torch.tensor([0, 2, 5])
    for call in (lambda rows: segment_sum(rows.square(), ptr), lambda rows: flat_padded(rows.square(), ptr, 4)):
        assert torch.autograd.gradcheck(call, (x,)) and torch.autograd.gradgradcheck(call, (x,))
