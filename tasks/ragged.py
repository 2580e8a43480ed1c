"""A dense layer on rows that would be zero-padded to N, with little of the padding."""

import numpy as np
import torch
from torch import Tensor, nn

from permlab.readouts.errors import ReadoutError

SHORTEST, GROWTH = 12, 1.5  # positions of the first block, and the factor from one block's end to the next


def block_edges(max_nodes: int) -> list[int]:
    """0 = e_0 < e_1 < … = max_nodes: where the blocks of positions end."""
    edges = [0]
    while (edge := max(SHORTEST, int(edges[-1] * GROWTH))) < max_nodes:
        edges.append(edge)
    return [*edges, max_nodes]


class RaggedLinear(nn.Linear):
    """y_b = W vec(pad(rows_b)) + c: the rows [n, k] of B graphs → [B, out].

    The same values as `nn.Linear(N·k, out)` on rows zero-padded to N and flattened, with the same weight [out, N·k].
    Positions come in blocks. Block [lo, hi) concerns the graphs with more than lo rows: their rows there, padded to
    hi − lo, times the columns of W for these positions. Only the last block of a graph holds padding.
    """

    def __init__(self, row_channels: int, max_nodes: int, out_channels: int) -> None:
        super().__init__(max_nodes * row_channels, out_channels)
        self.row_channels, self.max_nodes, self.edges = row_channels, max_nodes, block_edges(max_nodes)

    def forward(self, rows: Tensor, sizes: np.ndarray) -> Tensor:  # type: ignore[override]
        """`sizes` [B] are the graphs' numbers of rows, on the host."""
        if len(sizes) and (largest := int(sizes.max())) > self.max_nodes:
            raise ReadoutError(f"a graph has {largest} nodes; max_nodes is {self.max_nodes}")
        if rows.size(1) != self.row_channels:
            raise ReadoutError(f"rows have {rows.size(1)} channels; this layer takes {self.row_channels}")
        k, n = self.row_channels, len(rows)
        rows = torch.cat([rows, rows.new_zeros(1, k)])  # row n is the padding
        first, order = np.cumsum(sizes) - sizes, np.argsort(-sizes, kind="stable")
        weights = self.weight.split([k * (hi - lo) for lo, hi in zip(self.edges, self.edges[1:], strict=False)], dim=1)
        out = self.bias.expand(len(sizes), -1)
        for lo, hi, weight in zip(self.edges, self.edges[1:], weights, strict=False):
            graphs = order[: np.searchsorted(-sizes[order], -lo)]  # the graphs with more than lo rows
            if not len(graphs):
                break
            position = np.arange(lo, hi)
            place = np.where(position < sizes[graphs, None], first[graphs, None] + position, n)
            block = rows.index_select(0, torch.from_numpy(place.reshape(-1)).to(rows.device, non_blocking=True))
            where = torch.from_numpy(graphs).to(rows.device, non_blocking=True)
            out = out.index_add(0, where, (block.view(len(graphs), -1) @ weight.T).to(out.dtype))  # as autocast rounds
        return out
