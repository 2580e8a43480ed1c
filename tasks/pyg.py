"""Between GraphBatch and PyG: for third-party models and tools, never on the hot path."""

import numpy as np
import torch
from torch_geometric.data import Batch, Data

from permlab.datasets.batch import GraphBatch
from permlab.datasets.store import GraphStore


def to_pyg(store: GraphStore, graphs: np.ndarray, edge_features: bool = True) -> list[Data]:
    """The raw graphs at these positions as PyG `Data`: x [n, r], edge_index [2, e], edge_attr [e, s] if there are edge
    features and they are wanted, y [1], or [1, T] with several targets.
    """
    ends = np.cumsum([len(shard) for shard in store.shards])
    data = []
    for graph in graphs:
        number = int(np.searchsorted(ends, graph, side="right"))
        shard, local = store.shards[number], int(graph - (ends[number] - len(store.shards[number])))
        nodes, edges = slice(*shard.node_ptr[local : local + 2]), slice(*shard.edge_ptr[local : local + 2])
        edge_index = torch.from_numpy(np.stack([shard.src[edges], shard.dst[edges]]).astype(np.int64))
        x = torch.from_numpy(shard.x[nodes].copy())
        y = torch.from_numpy(store.y[graph : graph + 1].copy())
        data.append(Data(x=x, edge_index=edge_index, y=y))
        if edge_features and shard.edge_attr is not None:
            data[-1].edge_attr = torch.from_numpy(shard.edge_attr[edges].copy())
    return data


def from_pyg(data: Data | Batch | list[Data]) -> GraphBatch:
    """PyG graphs with x, edge_index, y and, if present, edge_attr as one GraphBatch."""
    batch = data if isinstance(data, Batch) else Batch.from_data_list(data if isinstance(data, list) else [data])
    y = batch.y.float().view(batch.num_graphs, -1).squeeze(-1)
    return GraphBatch(batch.x, batch.edge_index, batch.ptr, y, batch.edge_attr)
