"""F = ζ ∘ φ ∘ Γ: GCN, readout, head."""

import torch
from torch import Tensor, nn

from permlab.datasets.batch import GraphBatch
from permlab.readouts.base import Readout, RowReadout
from permlab.readouts.kernels import GaussianKernels
from permlab.readouts.pooling import Sum
from permlab.readouts.products import fast
from permlab.readouts.segments import flat_padded
from permlab.tasks.gcn import GCN
from permlab.tasks.layer import Layer, Links, chain, fused
from permlab.tasks.ragged import RaggedLinear


class Head(nn.Module):
    """ζ: `layers` dense layers of `hidden` units, σ after each, then one output: [B, m] → [B].

    After a row readout the first layer is ragged: it takes the rows as they are, without their padding.
    """

    def __init__(self, readout: Readout, hidden: int, layers: int, activation: str, dropout: float) -> None:
        super().__init__()
        self.first: RaggedLinear | nn.Linear
        if isinstance(readout, RowReadout):
            self.first = RaggedLinear(readout.row_channels, readout.max_nodes, hidden)
        else:
            self.first = nn.Linear(readout.out_channels, hidden)
        self.inner = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers - 1))
        self.last = nn.Linear(hidden, 1)
        self.layers: list[Layer | None] = [*[Layer(activation, linear=True)] * layers, Layer(linear=True)]
        self.activation, self.dropout = activation, dropout
        self._dense = [self.first, *self.inner, self.last]

    @property
    def _flat(self) -> list[Tensor]:
        """W, b of the first layer, W, b of the second, …"""
        return [parameter for layer in self._dense for parameter in (layer.weight, layer.bias)]

    def forward(self, pooled: Tensor, ptr: Tensor) -> Tensor:
        z, layers, parameters = pooled, self.layers, self._flat
        if isinstance(self.first, RaggedLinear):
            if self.first.dense_for(pooled):
                z = flat_padded(pooled, ptr, self.first.max_nodes)
            else:
                z, layers, parameters = self.first(pooled, ptr, self.activation), layers[1:], parameters[2:]
        if not self.dropout:
            return chain(Links(z, layers, parameters, [None] * len(layers)), flat=True)
        for i, layer in enumerate(layers):
            dropped = i or len(layers) < len(self.layers)  # what comes into ζ is left whole
            z = nn.functional.dropout(z, self.dropout, self.training) if dropped else z
            z = chain(Links(z, [layer], parameters[2 * i : 2 * i + 2], [None]))
        return z.squeeze(-1)

    def behind(self, links: Links) -> Links:
        """Those links and ζ, for what is not rows; without dropout only."""
        return links.then(self.layers, self._flat, [None] * len(self.layers))


class GraphModel(nn.Module):
    """GraphBatch → [B]: a logit, or the estimate of the target."""

    def __init__(self, gcn: GCN, readout: Readout, head: Head) -> None:
        super().__init__()
        self.gcn, self.readout, self.head = gcn, readout, head
        self._pools_by_a_link = type(readout) in (Sum, GaussianKernels)

    def forward(self, batch: GraphBatch) -> Tensor:
        if (links := self.links(batch)) is not None:
            return fused(links, flat=True)
        if isinstance(self.readout, Sum) and self.gcn.last_activation == "none":
            return self.head(self.gcn.summed(batch), batch.ptr)
        weight, bias = self.gcn.last
        if self.gcn.linear_end and torch.is_grad_enabled() and self.readout.takes_factors(weight):
            before = chain(self.gcn.links_before_last(batch))
            return self.head(self.readout.pool_factors(before, weight, bias, batch.ptr), batch.ptr)
        x = self.gcn(batch)
        # `ordered` and `pool` skip the checks of `rows` and `forward`: a batch of the store is well-formed.
        if isinstance(self.readout, RowReadout):
            return self.head(self.readout.ordered(x, batch.ptr), batch.ptr)
        return self.head(self.readout.pool(x, batch.ptr), batch.ptr)

    def links(self, batch: GraphBatch) -> Links | None:
        """F as one chain, to be trained by one compiled call, if it is one: where the readout is a link too.

        Hooks, which would see nothing of it, keep it from being one.
        """
        if not self._pools_by_a_link or not fast(batch.x) or not torch.is_grad_enabled():
            return None
        gcn, readout, head = self.gcn, self.readout, self.head
        if gcn.dropout or head.dropout or any(each._forward_hooks for each in (self, gcn, head)):
            return None
        if isinstance(readout, Sum) and gcn.last_activation == "none":
            links = gcn.links_summed(batch)
        elif isinstance(readout, GaussianKernels) and not readout.mean:
            if gcn.linear_end and readout.takes_factors(gcn.last[0]):
                return None
            links = gcn.links(batch).then([None], [], [readout.gaussian(batch.ptr)])
        else:
            return None
        links = head.behind(links)
        return links if links.fusable else None
