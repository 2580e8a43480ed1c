from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from permlab.readouts.errors import ReadoutError
from permlab.readouts.segments import flat_padded
from permlab.tasks.ragged import RaggedLinear, block_edges


@pytest.mark.parametrize("channels", [1, 100])
@pytest.mark.parametrize("max_nodes", [1, 7, 8, 9, 29, 32, 620, 5000])
def test_blocks_cover_every_position_once(max_nodes: int, channels: int) -> None:
    edges = block_edges(max_nodes, channels)
    assert edges[0] == 0 and edges[-1] == max_nodes and edges == sorted(set(edges))


@given(
    sizes=st.lists(st.integers(0, 80), min_size=1, max_size=9),
    channels=st.sampled_from([1, 3, 33]),
    spare=st.integers(0, 9),
    seed=st.integers(0, 2**31),
)
def test_equals_a_dense_layer_on_the_padded_rows(sizes: list[int], channels: int, spare: int, seed: int) -> None:
    torch.manual_seed(seed)
    max_nodes = max(1, max(sizes) + spare)
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    rows = torch.randn(int(ptr[-1]), channels, dtype=torch.float64, requires_grad=True)
    layer = RaggedLinear(channels, max_nodes, 5).double()
    dense = torch.nn.Linear(max_nodes * channels, 5).double()
    dense.weight.data, dense.bias.data = layer.weight.detach().clone(), layer.bias.detach().clone()

    expected = dense(flat_padded(rows, ptr, max_nodes))
    found = layer(rows, ptr)
    torch.testing.assert_close(found, expected)

    direction = torch.randn_like(found)
    (grad_rows,) = torch.autograd.grad((expected * direction).sum(), rows, retain_graph=True)
    (expected * direction).sum().backward()
    rows.grad = None
    (found * direction).sum().backward()
    torch.testing.assert_close(rows.grad, grad_rows)
    torch.testing.assert_close(layer.weight.grad, dense.weight.grad)
    torch.testing.assert_close(layer.bias.grad, dense.bias.grad)


def test_starts_as_a_dense_layer_does() -> None:
    torch.manual_seed(3)
    dense = torch.nn.Linear(29 * 4, 6)
    torch.manual_seed(3)
    layer = RaggedLinear(4, 29, 6)
    torch.testing.assert_close(layer.weight, dense.weight)
    torch.testing.assert_close(layer.bias, dense.bias)


def test_gradients_add_up_and_none_is_left_of_the_step_before() -> None:
    torch.manual_seed(0)
    layer = RaggedLinear(2, 150, 3).double()  # more than one block
    long, short = torch.tensor([0, 150]), torch.tensor([0, 4])

    def gradient(ptr: torch.Tensor) -> torch.Tensor:
        rows = torch.ones(int(ptr[-1]), 2, dtype=torch.float64)
        (grad,) = torch.autograd.grad(layer(rows, ptr).sum(), layer.weight)
        return grad.clone()

    first, second = gradient(long), gradient(short)
    assert first.all() and second[:, :8].all() and not second[:, 8:].any()
    for ptr in (long, short):
        layer(torch.ones(int(ptr[-1]), 2, dtype=torch.float64), ptr).sum().backward()
    assert torch.equal(layer.weight.grad, first + second)
    layer.weight.grad = None
    layer(torch.ones(4, 2, dtype=torch.float64), short).sum().backward()
    assert torch.equal(layer.weight.grad, second)
    kept = layer.weight.grad.data_ptr()
    layer.weight.grad = None
    layer(torch.ones(4, 2, dtype=torch.float64), short).sum().backward()
    assert layer.weight.grad.data_ptr() == kept  # not copied either


def test_two_gradients_at_once_do_not_share_their_memory() -> None:
    torch.manual_seed(0)
    ptr, rows = torch.tensor([0, 150]), [torch.randn(150, 2) for _ in range(2)]
    for dtype in (torch.float32, torch.float64):
        layer, given = RaggedLinear(2, 150, 3).to(dtype), [each.to(dtype) for each in rows]
        apart = [torch.autograd.grad(layer(each, ptr).sum(), layer.weight)[0] for each in given]
        sum(layer(each, ptr).sum() for each in given).backward()
        torch.testing.assert_close(layer.weight.grad, apart[0] + apart[1])
        assert not torch.equal(*apart)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ReadoutError, match="rows have 3 channels; this layer takes 2"):
        RaggedLinear(2, 150, 3)(torch.ones(4, 3), torch.tensor([0, 4]))


def test_a_graph_that_does_not_fit_is_refused() -> None:
    for max_nodes in (5, 150):  # one block, and more than one
        layer, size = RaggedLinear(2, max_nodes, 3), max_nodes + 1
        with pytest.raises(ReadoutError, match=f"a graph has {size} nodes; max_nodes is {max_nodes}"):
            layer(torch.ones(size, 2), torch.tensor([0, size]))


@pytest.mark.parametrize("hidden", [5, 8])  # 8: the weight is square
def test_weights_of_the_first_version_are_turned(tmp_path: Path, hidden: int) -> None:
    torch.manual_seed(0)
    layer = RaggedLinear(2, 4, hidden)
    torch.save(layer.state_dict(), tmp_path / "new.pt")
    old = layer.state_dict()
    old["weight"] = old["weight"].T.contiguous()
    old._metadata[""]["version"] = 1
    torch.save(old, tmp_path / "old.pt")
    for file in ("old.pt", "new.pt"):
        again = RaggedLinear(2, 4, hidden)
        again.load_state_dict(torch.load(tmp_path / file, weights_only=True))
        assert torch.equal(again.weight, layer.weight)
