"""GraphBatch: laid out as a PyG user expects, with Â as PyG computes it."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_dense_adj

from permlab.datasets.batch import GraphBatch

SIZES = (4, 0, 1, 3)
EDGES = torch.tensor([[0, 1, 2, 3, 5, 6], [1, 2, 1, 0, 6, 7]])  # directed; node 4 is alone


def make_batch(edges: Tensor = EDGES, dtype: torch.dtype = torch.float64) -> GraphBatch:
    x = torch.randn(sum(SIZES), 3, generator=torch.Generator().manual_seed(0)).to(dtype)
    ptr = torch.tensor([0, *np.cumsum(SIZES)])
    return GraphBatch(x, edges, ptr, torch.arange(4.0), edge_attr=torch.ones(edges.size(1), 2))


def dense(batch: GraphBatch) -> Tensor:
    """Â, column by column."""
    return batch.adjacency @ torch.eye(len(batch.x), dtype=torch.float64)


def test_graphs_are_counted_and_nodes_know_theirs() -> None:
    batch = make_batch()
    assert len(batch) == 4 and batch.sizes.tolist() == list(SIZES)
    assert batch.batch.tolist() == [0, 0, 0, 0, 2, 3, 3, 3]
    assert batch.graph_id.tolist() == [0, 1, 2, 3] and batch.step == 0


@pytest.mark.parametrize("kind", ["directed", "undirected"])
def test_the_adjacency_agrees_with_pyg(kind: str) -> None:
    edges = EDGES if kind == "directed" else torch.cat([EDGES, EDGES.flip(0)], dim=1).unique(dim=1)
    batch = make_batch(edges)
    index, weight = gcn_norm(edges, num_nodes=len(batch.x))
    expected = to_dense_adj(index, edge_attr=weight, max_num_nodes=len(batch.x))[0].T  # from source to target
    assert torch.equal(expected, expected.T) == (kind == "undirected")
    torch.testing.assert_close(dense(batch), expected.double(), atol=1e-7, rtol=0)
    torch.testing.assert_close(batch.az, expected.double() @ batch.x, atol=1e-6, rtol=0)


def test_loops_and_repeated_edges_count_once() -> None:
    loops = torch.tensor([[0, 0, 4], [0, 0, 4]])
    assert torch.equal(dense(make_batch(torch.cat([EDGES, EDGES[:, :2], loops], dim=1))), dense(make_batch()))


def test_the_gradient_goes_against_the_edges() -> None:
    batch, a = make_batch(), dense(make_batch())
    assert not torch.allclose(a, a.T)
    h = batch.x.clone().requires_grad_()
    direction = torch.randn(h.shape, dtype=h.dtype, generator=torch.Generator().manual_seed(1))
    ((batch.adjacency @ h) * direction).sum().backward()
    torch.testing.assert_close(h.grad, a.T @ direction)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sums_keep_the_dtype_of_their_input(dtype: torch.dtype) -> None:
    assert make_batch(dtype=dtype).az.dtype == dtype
    assert (make_batch().adjacency @ torch.ones(8, 1, dtype=dtype)).dtype == dtype


def test_gradients_reach_the_features_every_time() -> None:
    batch, a = make_batch(), dense(make_batch())
    with torch.no_grad():
        assert not batch.az.requires_grad
    batch.x.requires_grad_()
    for _ in range(2):
        (gradient,) = torch.autograd.grad(batch.az.sum(), batch.x)
        torch.testing.assert_close(gradient, a.T @ torch.ones(8, 3, dtype=torch.float64))


def test_a_batch_without_nodes() -> None:
    batch = GraphBatch(torch.zeros(0, 3), torch.zeros(2, 0, dtype=torch.int64), torch.tensor([0, 0]), torch.zeros(1))
    assert batch.az.shape == (0, 3) and len(batch.batch) == 0 and len(batch) == 1


def test_moved_to_another_device_it_has_everything_there() -> None:
    batch = make_batch()
    batch.step = 7
    assert batch.to("cpu") is batch
    moved = batch.to("meta")
    adjacency = [*moved.adjacency[:3], *moved.adjacency.back]
    for tensor in (moved.x, moved.edge_index, moved.edge_attr, moved.ptr, moved.y, moved.az, moved.batch, *adjacency):
        assert tensor.device.type == "meta"
    assert moved.sizes.tolist() == list(SIZES) and moved.graph_id.tolist() == [0, 1, 2, 3] and moved.step == 7
    assert len(moved) == 4 and moved.az.shape == batch.az.shape and moved.batch.shape == batch.batch.shape


def test_it_is_laid_out_as_pyg_lays_it_out() -> None:
    batch, start, graphs = make_batch(), 0, []
    for i, size in enumerate(SIZES):
        inside = (EDGES[0] >= start) & (EDGES[0] < start + size)
        graphs.append(Data(x=batch.x[start : start + size], edge_index=EDGES[:, inside] - start, y=batch.y[i : i + 1]))
        start += size
    theirs = Batch.from_data_list(graphs)
    for name in ("x", "edge_index", "ptr", "batch", "y"):
        assert torch.equal(getattr(batch, name), theirs[name]), name
