"""A dense layer on rows that would be zero-padded to N, without touching the padding."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from permlab.readouts.errors import ReadoutError
from permlab.readouts.loops.padding import pad, unpad
from permlab.readouts.products import fast
from permlab.readouts.segments import flat_padded
from permlab.readouts.tape import apply
from permlab.tasks.fused_ragged import FusedRagged
from permlab.tasks.layer import Layer, Links, activate, chain

# Channels a row at the most → the first block's positions, by how much each is longer than the one before, and by how
# many positions at least.
_BLOCKS = ((3, 32, 1.5, 4), (float("inf"), 12, 1.15, 3))


def block_edges(max_nodes: int, row_channels: int) -> list[int]:
    """0 = e_0 < e_1 < … = max_nodes. More blocks mean less padding, but more calls: narrow rows take longer blocks."""
    edge, growth, least = next(block[1:] for block in _BLOCKS if row_channels <= block[0])
    edges = [0]
    while edge + least - 1 < max_nodes:
        edges.append(edge)
        edge = max(edge + least, int(edge * growth) // least * least)
    return [*edges, max_nodes]


class _RaggedProduct(torch.autograd.Function):
    """Σ_i W_i rows[b, i] for every graph b, in blocks of positions.

    Graphs are sorted by size; block [lo, hi) concerns those with more than lo rows, a prefix of that list, as one
    GEMM with the columns of W for these positions: [m, (hi − lo)·k] × [(hi − lo)·k, out]. Only the last block of a
    graph holds padding.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, ptr: Tensor, layer: "RaggedLinear") -> Tensor:
        bounds, k = ptr.numpy(), rows.size(1)
        sizes = np.diff(bounds)
        order = np.argsort(-sizes, kind="stable")
        past = np.searchsorted(-sizes[order], -layer.edge_array[:-1]).tolist()  # graphs with more rows than that
        blocks = [(lo, hi, m) for lo, hi, m in zip(layer.edges[:-1], layer.edges[1:], past, strict=True) if m]
        padded, source = rows.new_empty(sum(m * (hi - lo) for lo, hi, m in blocks), k), rows.contiguous().numpy()
        out = bias.expand(len(order), -1).clone()
        first = 0
        for lo, hi, m in blocks:
            block = padded[first : first + m * (hi - lo)].view(m, -1)
            pad(source, bounds, order[:m], lo, hi, block.numpy())
            out[:m].addmm_(block, weight[:, lo * k : hi * k].T)
            first += m * (hi - lo)
        ctx.save_for_backward(padded, weight)
        ctx.blocks, ctx.bounds, ctx.order, ctx.layer = blocks, bounds, order, layer
        return torch.empty_like(out).index_copy_(0, torch.from_numpy(order), out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        padded, weight = ctx.saved_tensors
        k = padded.size(1)
        grad = grad.index_select(0, torch.from_numpy(ctx.order))
        grad_weight = ctx.layer.gradient_memory()
        grad_weight[:, ctx.blocks[-1][1] * k if ctx.blocks else 0 :].zero_()  # behind the largest graph
        grad_rows = grad.new_empty(int(ctx.bounds[-1]), k)
        first = 0
        for lo, hi, m in ctx.blocks:
            block = padded[first : first + m * (hi - lo)].view(m, -1)
            torch.mm(grad[:m].T, block, out=grad_weight[:, lo * k : hi * k])
            grad_block = torch.mm(grad[:m], weight[:, lo * k : hi * k])
            unpad(grad_block.numpy(), ctx.bounds, ctx.order[:m], lo, hi, grad_rows.numpy())
            first += m * (hi - lo)
        return grad_rows, grad_weight, grad.sum(0), None, None


class RaggedLinear(nn.Linear):
    """y_b = W vec(pad(rows_b)) + c: rows [n, k], ptr [B + 1] → [B, out].

    The same numbers as `nn.Linear(N·k, out)` on rows zero-padded to N and flattened, with the same weight [out, N·k].
    """

    _version = 2  # of its state: the first one kept the transpose of the weight

    def __init__(self, row_channels: int, max_nodes: int, out_channels: int) -> None:
        super().__init__(max_nodes * row_channels, out_channels)
        self.edges, self.max_nodes = block_edges(max_nodes, row_channels), max_nodes
        self.edge_array = np.array(self.edges)
        self._memory: Tensor | None = None

    def forward(self, rows: Tensor, ptr: Tensor, activation: str = "none") -> Tensor:  # type: ignore[override]
        """σ(y_b) of every graph."""
        if self.dense_for(rows):
            padded = flat_padded(rows, ptr, self.max_nodes)
            return chain(Links(padded, [Layer(activation, linear=True)], [self.weight, self.bias], [None]))
        sizes = np.diff(ptr.numpy())  # asked at every step, and torch takes longer
        if len(sizes) and (largest := int(sizes.max())) > self.max_nodes:
            raise ReadoutError(f"a graph has {largest} nodes; max_nodes is {self.max_nodes}")
        if rows.size(1) * self.max_nodes != self.in_features:
            channels = self.in_features // self.max_nodes
            raise ReadoutError(f"rows have {rows.size(1)} channels; this layer takes {channels}")
        if fast(rows, self.weight) and activation in ("relu", "none"):
            return apply(FusedRagged, rows, self.weight, self.bias, ptr, self, activation == "relu")
        return activate(apply(_RaggedProduct, rows, self.weight, self.bias, ptr, self), activation)

    def dense_for(self, rows: Tensor) -> bool:
        """Whether it is better to pad: for one block, and where products are cheap, but what happens between is not."""
        return len(self.edges) == 2 or rows.device.type != "cpu"

    def _load_from_state_dict(self, state: Any, prefix: str, metadata: dict[str, Any], *args: Any) -> None:
        name = f"{prefix}weight"
        if name in state and (metadata.get("version") == 1 or state[name].shape != self.weight.shape):
            state[name] = state[name].T.contiguous()
        super()._load_from_state_dict(state, prefix, metadata, *args)

    def gradient_memory(self) -> Tensor:
        """Room for a gradient of the weight: the same at every step, as fresh memory costs as much as the product.

        While the gradient before is in use, as that of the weight, to which this one will be added, or anywhere else,
        it is fresh all the same.
        """
        memory = self._memory
        if memory is None or memory.dtype != self.weight.dtype or memory.device != self.weight.device:
            memory = self._memory = torch.empty_like(self.weight, requires_grad=False)
        alone = torch._C._storage_Use_Count(memory.untyped_storage()._cdata) <= 2  # the layer, and who asks
        return memory.detach() if alone else torch.empty_like(self.weight)
