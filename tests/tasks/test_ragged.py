import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from permlab.readouts.errors import ReadoutError
from permlab.tasks.ragged import RaggedLinear, block_edges


@pytest.mark.parametrize("max_nodes", [1, 7, 8, 9, 11, 12, 13, 29, 32, 620, 5000])
def test_blocks_cover_every_position_once(max_nodes: int) -> None:
    edges = block_edges(max_nodes)
    assert edges[0] == 0 and edges[-1] == max_nodes and edges == sorted(set(edges))


def padded(rows: Tensor, sizes: list[int], max_nodes: int) -> Tensor:
    """Graph by graph."""
    parts = [torch.cat([part, part.new_zeros(max_nodes - len(part), part.size(1))]) for part in rows.split(sizes)]
    return torch.stack(parts).flatten(1)


@given(
    sizes=st.lists(st.integers(0, 80), min_size=1, max_size=9),
    channels=st.sampled_from([1, 3, 33]),
    spare=st.integers(0, 9),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 2**31),
)
def test_values_and_gradients_are_those_of_a_dense_layer_on_the_padded_rows(
    sizes: list[int], channels: int, spare: int, dtype: torch.dtype, seed: int
) -> None:
    torch.manual_seed(seed)
    max_nodes = max(1, max(sizes) + spare)
    rows = torch.randn(sum(sizes), channels, dtype=dtype, requires_grad=True)
    layer = RaggedLinear(channels, max_nodes, 5).to(dtype)
    dense = torch.nn.Linear(max_nodes * channels, 5).to(dtype)
    dense.load_state_dict(layer.state_dict())
    out, expected = layer(rows, np.array(sizes)), dense(padded(rows, sizes, max_nodes))
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {}
    torch.testing.assert_close(out, expected, **tolerance)
    direction = torch.randn_like(out)
    ours = torch.autograd.grad((out * direction).sum(), [rows, layer.weight, layer.bias], materialize_grads=True)
    theirs = torch.autograd.grad((expected * direction).sum(), [rows, dense.weight, dense.bias])
    torch.testing.assert_close(ours, theirs, **tolerance)


def test_it_starts_as_a_dense_layer_does() -> None:
    torch.manual_seed(3)
    dense = torch.nn.Linear(29 * 4, 6)
    torch.manual_seed(3)
    layer = RaggedLinear(4, 29, 6)
    assert torch.equal(layer.weight, dense.weight) and torch.equal(layer.bias, dense.bias)


def test_gradients_of_two_calls_add_up() -> None:
    torch.manual_seed(0)
    layer = RaggedLinear(2, 150, 3).double()  # more than one block
    calls = [(torch.randn(size, 2, dtype=torch.float64), np.array([size])) for size in (150, 4)]
    apart = [torch.autograd.grad(layer(*call).sum(), layer.weight)[0] for call in calls]
    assert apart[0].all() and apart[1][:, :8].all() and not apart[1][:, 8:].any()
    for call in calls:
        layer(*call).sum().backward()
    torch.testing.assert_close(layer.weight.grad, apart[0] + apart[1])


def test_no_graphs_give_no_rows() -> None:
    assert RaggedLinear(2, 5, 3)(torch.zeros(0, 2), np.array([], dtype=np.int64)).shape == (0, 3)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ReadoutError, match="3 channels.* 2"):
        RaggedLinear(2, 150, 3)(torch.ones(4, 3), np.array([4]))


@pytest.mark.parametrize("max_nodes", [5, 150])  # one block, and more than one
def test_a_graph_that_does_not_fit_is_refused(max_nodes: int) -> None:
    size = max_nodes + 1
    with pytest.raises(ReadoutError, match=f"{size} nodes.*max_nodes is {max_nodes}"):
        RaggedLinear(2, max_nodes, 3)(torch.ones(size, 2), np.array([size]))
