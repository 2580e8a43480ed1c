"""PyG's aggregations as readouts: the same numbers, with facts and checks."""

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

from permlab.readouts.base import Readout
from permlab.readouts.checks import check_size
from permlab.readouts.segments import segment_ids


class FromPyG(Readout):
    """φ is `aggregation`, one of PyG's: x [n, d] → [B, m]."""

    def __init__(self, in_channels: int, out_channels: int, aggregation: Aggregation) -> None:
        check_size("in_channels", in_channels)
        check_size("out_channels", out_channels)
        super().__init__()
        self.in_channels, self.out_channels, self.aggregation = in_channels, out_channels, aggregation

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        image: Tensor = self.aggregation(x, segment_ids(ptr, x.size(0)), dim_size=ptr.numel() - 1)
        return image


class SizeBySize(FromPyG):
    """PyG pads these to the largest graph. Graphs of one size need no padding, so they are pooled together, one size
    after the other; a graph without nodes gives 0. The host must know the sizes, so it waits for the device.
    """

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        out = x.new_zeros(ptr.numel() - 1, self.out_channels)
        for graphs, rows in of_one_size(ptr):
            index = torch.arange(len(graphs), device=x.device).repeat_interleave(rows.size(1))
            flat = x.index_select(0, rows.flatten())
            image = self.aggregation(flat, index, dim_size=len(graphs), max_num_elements=rows.size(1))
            out = out.index_copy(0, graphs, image)
        return out


def of_one_size(ptr: Tensor) -> list[tuple[Tensor, Tensor]]:
    """For every size k > 0 that occurs: the graphs of k nodes [g], and their rows [g, k]."""
    sizes = ptr.diff()
    blocks = []
    for size in sizes.unique().tolist():
        graphs = (sizes == size).nonzero()[:, 0]
        if size:
            blocks.append((graphs, ptr[graphs, None] + torch.arange(size, device=ptr.device)))
    return blocks
