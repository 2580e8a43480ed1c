"""A readout of your own: the mean and the spread of every column."""

import torch
from torch_geometric.nn.aggr import Aggregation


class MeanAndSpread(Aggregation):
    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
        mean = self.reduce(x, index, ptr, dim_size, dim, reduce="mean")
        square = self.reduce(x * x, index, ptr, dim_size, dim, reduce="mean")
        return torch.cat([mean, (square - mean * mean).clamp(min=1e-12).sqrt()], dim=1)
