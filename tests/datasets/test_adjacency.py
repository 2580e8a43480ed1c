import itertools

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_dense_adj

from permlab.datasets.adjacency import normalised_adjacency
from permlab.datasets.chunk import make_chunk, pointer


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_it_agrees_with_the_formula_and_with_pyg(counts: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    ptr = pointer(np.array(counts))
    n = int(ptr[-1])
    dense = np.zeros((n, n))
    for first, last in itertools.pairwise(ptr):
        block = np.triu(random.random((last - first, last - first)) < 0.4, 1)
        dense[first:last, first:last] = block + block.T
    x = random.standard_normal((n, 3)).astype(np.float32)
    src, dst = np.nonzero(dense)
    chunk = make_chunk(x, np.array(counts), src, dst, np.zeros(len(counts)), np.arange(len(counts)))

    adjacency = normalised_adjacency(chunk)
    row = np.repeat(np.arange(n), adjacency.degree)
    column = adjacency.column + np.repeat(np.repeat(ptr[:-1], counts), adjacency.degree)
    ours = np.zeros((n, n))
    ours[row, column] = adjacency.value

    scale = np.diag((dense.sum(1) + 1) ** -0.5)
    formula = scale @ (dense + np.eye(n)) @ scale
    np.testing.assert_allclose(ours, formula, atol=1e-7)
    np.testing.assert_allclose(adjacency.az, formula @ x, atol=1e-6)
    edge_index, weight = gcn_norm(torch.tensor(np.stack([src, dst])), num_nodes=n)
    np.testing.assert_allclose(ours, to_dense_adj(edge_index, edge_attr=weight, max_num_nodes=n)[0], atol=1e-6)
