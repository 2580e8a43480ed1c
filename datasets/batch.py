"""A batch of graphs as flat tensors: what a GCN and a readout need, and nothing else."""

from typing import NamedTuple

import torch

from permlab.datasets.colours import Colours


class GraphBatch(NamedTuple):
    """B graphs with n nodes in all; Â is block-diagonal CSR over the batch's n nodes, symmetric.

    `x` is Â·Z: the first GCN layer is `x @ W` and needs no product with Â. A batch to train on may have `colours`: they
    stand for `x` and Â in the first two layers: whoever replaces those puts None in their place.
    """

    x: torch.Tensor  # [n, r] float32
    ptr: torch.Tensor  # [B + 1] int64
    a_ptr: torch.Tensor  # [n + 1] int32
    a_column: torch.Tensor  # [entries] int32, nodes of the batch
    a_value: torch.Tensor  # [entries] float32
    y: torch.Tensor  # [B] float32
    step: int = 0  # of a training batch: its place in the epoch
    colours: Colours | None = None  # of the nodes, if those of the training graphs are few

    @property
    def adjacency(self) -> torch.Tensor:
        """Â as a sparse CSR tensor [n, n]."""
        size = (len(self.x), len(self.x))
        return torch.sparse_csr_tensor(self.a_ptr, self.a_column, self.a_value, size, check_invariants=False)
