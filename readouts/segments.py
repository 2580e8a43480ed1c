"""Arithmetic on flat batches: the rows of graph b are x[ptr[b]:ptr[b+1]].

Work is proportional to the n rows that exist. Nothing here copies a value back from the device: shapes are known on the
host, so no call waits for an accelerator.
"""

import torch
from torch import Tensor


def segment_ids(ptr: Tensor, n: int) -> Tensor:
    """ptr [B+1] of n rows → the graph of every row, [n], ascending."""
    graphs = torch.arange(ptr.numel() - 1, device=ptr.device)
    return torch.repeat_interleave(graphs, ptr.diff(), output_size=n)


def places(ptr: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The graph of every row, and its place in that graph, from 0: both [n]."""
    graph = segment_ids(ptr, n)
    return graph, torch.arange(n, device=ptr.device) - ptr.index_select(0, graph)


def segment_sum(x: Tensor, ptr: Tensor) -> Tensor:
    """Σ_i x_i over the rows of every graph: x [n, k] → [B, k]; an empty graph sums to 0."""
    return x.new_zeros(ptr.numel() - 1, x.size(1)).index_add(0, segment_ids(ptr, x.size(0)), x)


def flat_padded(rows: Tensor, ptr: Tensor, max_nodes: int) -> Tensor:
    """rows [n, k] → [B, max_nodes · k]: the rows of every graph, then zeros."""
    (n, k), graphs = rows.shape, ptr.numel() - 1
    graph = segment_ids(ptr, n)
    slot = torch.arange(n, device=rows.device) - ptr[graph] + max_nodes * graph
    return rows.new_zeros(graphs * max_nodes, k).index_copy(0, slot, rows).view(graphs, max_nodes * k)
