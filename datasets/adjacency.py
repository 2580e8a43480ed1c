"""The two things that a GCN needs from a graph: Â and Â·Z, neither of which depends on the weights.

Â = D̃^-1/2 (A + I) D̃^-1/2,   D̃ = D + I
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from permlab.datasets.chunk import GraphChunk, pointer


class Adjacency(NamedTuple):
    """Â of several graphs as block-diagonal CSR, columns local to each graph, and Â·Z."""

    degree: np.ndarray  # [n] int64, entries per row
    column: np.ndarray  # [n + e] int32, ascending in each row
    value: np.ndarray  # [n + e] float32
    az: np.ndarray  # [n, r] float32


def normalised_adjacency(chunk: GraphChunk) -> Adjacency:
    """Â and Â·Z of a chunk, summed in double precision and rounded once."""
    n = len(chunk.x)
    nodes = np.arange(n)
    node_start = np.repeat(chunk.node_ptr[:-1], np.diff(chunk.node_ptr))
    edge_start = np.repeat(chunk.node_ptr[:-1], np.diff(chunk.edge_ptr))
    edges = (chunk.src + edge_start) * n + (chunk.dst + edge_start)
    key = np.sort(np.concatenate([edges, nodes * n + nodes]))
    row, column = key // max(n, 1), key % max(n, 1)
    degree = np.bincount(row, minlength=n)
    scale = 1.0 / np.sqrt(degree)
    value = scale[row] * scale[column]
    az = csr_array((value, column, pointer(degree)), shape=(n, n)) @ chunk.x.astype(np.float64)
    return Adjacency(
        degree=degree,
        column=(column - node_start[row]).astype(np.int32),
        value=value.astype(np.float32),
        az=az.astype(np.float32),
    )
