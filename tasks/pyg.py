"""Between GraphBatch and PyG: for models and tools of others, never on the hot path."""

import numpy as np
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from permlab.datasets.batch import GraphBatch
from permlab.datasets.store import GraphStore


def to_pyg(store: GraphStore, graphs: np.ndarray) -> list[Data]:
    """The raw graphs at these positions as PyG `Data`: x [n, r], edge_index [2, e], y [1]."""
    ends = np.cumsum([len(shard) for shard in store.shards])
    data = []
    for graph in graphs:
        number = int(np.searchsorted(ends, graph, side="right"))
        shard, local = store.shards[number], int(graph - (ends[number] - len(store.shards[number])))
        nodes, edges = slice(*shard.node_ptr[local : local + 2]), slice(*shard.edge_ptr[local : local + 2])
        edge_index = torch.from_numpy(np.stack([shard.src[edges], shard.dst[edges]]).astype(np.int64))
        x = torch.from_numpy(shard.x[nodes].copy())
        data.append(Data(x=x, edge_index=edge_index, y=torch.tensor([shard.y[local]])))
    return data


def from_pyg(data: Data | Batch | list[Data]) -> GraphBatch:
    """PyG graphs with x, edge_index (both directions) and y as one GraphBatch: Â and Â·x are worked out here."""
    batch = data if isinstance(data, Batch) else Batch.from_data_list(data if isinstance(data, list) else [data])
    n = batch.num_nodes
    edge_index, weight = gcn_norm(batch.edge_index, num_nodes=n, dtype=torch.float64)
    order = torch.argsort(edge_index[0] * n + edge_index[1])
    row, column, value = edge_index[0][order], edge_index[1][order], weight[order]
    a_ptr = torch.zeros(n + 1, dtype=torch.int64)
    torch.cumsum(torch.bincount(row, minlength=n), 0, out=a_ptr[1:])
    az = torch.zeros(n, batch.x.size(1), dtype=torch.float64)
    az.index_add_(0, row, value[:, None] * batch.x.double()[column])
    return GraphBatch(az.float(), batch.ptr, a_ptr.int(), column.int(), value.float(), batch.y.float().view(-1))
