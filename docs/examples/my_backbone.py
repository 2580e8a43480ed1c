"""A backbone of your own: any module with `forward(x, edge_index)`; sizes are filled in by the names of arguments."""

from torch import nn
from torch_geometric.nn import GraphConv


class TwoHops(nn.Module):
    def __init__(self, in_channels, hidden_channels, out_channels, skip=True):
        super().__init__()
        self.first, self.second = GraphConv(in_channels, hidden_channels), GraphConv(hidden_channels, out_channels)
        self.skip = nn.Linear(in_channels, out_channels) if skip else None

    def forward(self, x, edge_index):
        h = self.second(self.first(x, edge_index).relu(), edge_index)
        return h if self.skip is None else h + self.skip(x)
