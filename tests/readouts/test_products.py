import pytest
import torch

from permlab.readouts.loops.vectors import AVAILABLE
from permlab.readouts.products import fast, outer, product


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest):
    """Compiled with one thread, torch's with two."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("q", [1, 5, 50, 200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_ways_are_the_formula(threads: int, q: int, dtype: torch.dtype) -> None:
    torch.manual_seed(q)
    a, b, bias, g = (torch.randn(*shape, dtype=dtype) for shape in ((30, 9), (q, 9), (q,), (30, q)))
    assert fast(a) == (AVAILABLE and threads == 1 and dtype == torch.float32)
    torch.testing.assert_close(product(a, b.T), a @ b.T)
    torch.testing.assert_close(product(a, b.T, bias), a @ b.T + bias)
    torch.testing.assert_close(product(a[::2], b.T), a[::2] @ b.T)
    torch.testing.assert_close(outer(a, g), a.T @ g)
    torch.testing.assert_close(outer(a[::2], g[::2]), a[::2].T @ g[::2])


def test_nothing_times_something_is_zero(threads: int) -> None:
    assert product(torch.empty(0, 3), torch.empty(3, 4)).shape == (0, 4)
    assert not product(torch.empty(2, 0), torch.empty(0, 4)).any()
    assert not outer(torch.empty(0, 3), torch.empty(0, 4)).any()
