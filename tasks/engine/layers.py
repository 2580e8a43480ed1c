"""Γ and ζ, forward and backward, on NumPy arrays: the same layers as `tasks/gcn.py` and `tasks/model.py`.

Every class keeps what its backward needs from the last forward, so only one step at a time.
"""

from typing import Any

import numpy as np

from permlab.tasks.dropout import Dropout
from permlab.tasks.engine.batches import EngineBatch
from permlab.tasks.engine.dense import (
    KINDS,
    finish,
    layer,
    layer_back,
    linear,
    linear_back,
    outer,
    row_sum,
    slope,
    times,
    times_transposed,
)
from permlab.tasks.engine.optimiser import FlatParameters
from permlab.tasks.engine.padding import pad_and_multiply, pad_and_multiply_back
from permlab.tasks.engine.room import Room
from permlab.tasks.gcn import GCN
from permlab.tasks.model import Head

NO_MASK = NOWHERE = np.empty((0, 1), dtype=np.float32)
BLOCKS = ((3, 32, 1.5, 4), (float("inf"), 12, 1.15, 3))  # channels of a row, first block, growth, shortest growth


class Masks:
    """The masks that a Dropout would draw at this point."""

    def __init__(self, dropout: Dropout) -> None:
        self.dropout, self.keep = dropout, 1 - dropout.p

    def mask(self, rows: int, columns: int) -> np.ndarray:
        return self.dropout.mask(rows, columns).numpy() if self.dropout.p else NO_MASK


class Convolutions:
    """The first `count` layers of a GCN: EngineBatch → [rows, width]."""

    def __init__(self, gcn: GCN, flat: FlatParameters, room: Room, count: int) -> None:
        pairs = list(zip(gcn.weights, gcn.biases, strict=True))[:count]
        self.weights = [(flat.of(weight), flat.of(bias)) for weight, bias in pairs]
        inner, last = (KINDS[type(each).__name__] for each in (gcn.activation, gcn.last_activation))
        layers = len(gcn.weights)
        self.kinds = [last if i + 1 == layers else inner for i in range(count)]
        self.dropped = [i + 1 < layers for i in range(count)]
        self.dropout, self.room = Masks(gcn.dropout), room
        self.saved: list[Any] = []

    def forward(self, batch: EngineBatch) -> np.ndarray:
        h, self.saved, self.adjacency = batch.x, [], batch.adjacency
        for i, ((weight, _), (bias, _)) in enumerate(self.weights):
            p, q = weight.shape
            first = i > 0 and q < p  # the product with W before that with Â
            if i and not first:
                h = self.adjacency(h)
            z = self.room.take(len(h), q)
            mask = self.dropout.mask(len(h), q) if self.dropped[i] else NO_MASK
            if first:
                times(h, weight, z)
                z = self.adjacency(z)
                finish(z, bias, self.kinds[i], mask)
            else:
                layer(h, weight, bias, self.kinds[i], mask, z)
            self.saved.append((first, h, z, mask))
            h = z
        return h

    def backward(self, grad: np.ndarray) -> None:
        """From the gradient of what `forward` returned, which is overwritten."""
        for i in range(len(self.weights) - 1, -1, -1):
            (weight, grad_weight), (_, grad_bias) = self.weights[i]
            first, h, z, mask = self.saved[i]
            below = self.room.take(len(h), len(weight)) if i else NOWHERE
            if first:
                slope(grad, z, self.kinds[i], mask, self.dropout.keep)
                row_sum(grad, grad_bias)
                grad = self.adjacency(grad)
                outer(h, grad, grad_weight)
                times_transposed(grad, weight, below)
            else:
                layer_back(grad, z, self.kinds[i], mask, self.dropout.keep, h, weight, grad_weight, grad_bias, below)
                below = self.adjacency(below) if i else below
            grad = below


class RaggedLayer:
    """σ(Σ_i W_i rows[b, i] + c): `tasks/ragged.py` in finer blocks, graphs sorted by size."""

    def __init__(self, head: Head, flat: FlatParameters, room: Room, whole: bool) -> None:
        layer: Any = head.first
        self.k, self.room = layer.row_channels, room
        self.edges = np.array([0, layer.max_nodes] if whole else block_edges(layer.max_nodes, self.k))
        (self.weight, self.grad_weight), (self.bias, self.grad_bias) = flat.of(layer.weight), flat.of(layer.bias)
        self.reached = layer.max_nodes  # positions whose gradient may differ from 0

    def forward(self, rows: np.ndarray, batch: EngineBatch) -> np.ndarray:
        """Without σ and c: [B, out]."""
        sizes = np.diff(batch.ptr)
        self.order, self.ptr = np.argsort(-sizes, kind="stable"), batch.ptr
        reach = np.searchsorted(-sizes[self.order], -self.edges[:-1])  # graphs with more rows than that
        count = np.count_nonzero(reach)
        self.blocks = np.stack([self.edges[:count], self.edges[1 : count + 1], reach[:count]], axis=1)
        self.padded = self.room.take(int(((self.blocks[:, 1] - self.blocks[:, 0]) * self.blocks[:, 2]).sum()) * self.k)
        total, out = np.zeros((2, len(sizes), len(self.bias)), dtype=np.float32)
        pad_and_multiply(rows, self.ptr, self.order, self.blocks, self.weight, self.padded, total)
        out[self.order] = total
        return out

    def backward(self, grad: np.ndarray) -> np.ndarray:
        """From the gradient of the sum before σ, [B, out]: that of the rows, [n, k]."""
        reached = int(self.blocks[-1, 1]) if len(self.blocks) else 0
        row_sum(grad, self.grad_bias)
        if reached < self.reached:
            self.grad_weight[:, reached * self.k : self.reached * self.k] = 0
        self.reached = reached
        rows, given = self.room.take(int(self.ptr[-1]), self.k), grad.take(self.order, axis=0)
        pad_and_multiply_back(
            given, self.ptr, self.order, self.blocks, self.weight, self.padded, self.grad_weight, rows
        )
        return rows


def block_edges(max_nodes: int, row_channels: int) -> list[int]:
    """0 = e_0 < e_1 < … = max_nodes. More blocks mean less padding, but more calls; narrow rows get longer blocks."""
    edge, growth, least = next(block[1:] for block in BLOCKS if row_channels <= block[0])
    edges = [0]
    while edge + least - 1 < max_nodes:
        edges.append(edge)
        edge = max(edge + least, int(edge * growth) // least * least)
    return [*edges, max_nodes]


class DenseHead:
    """ζ: a readout's output → [B]."""

    def __init__(self, head: Head, flat: FlatParameters, room: Room, whole: bool = False) -> None:
        dense: list[Any] = [head.first, *head.inner, head.last]
        self.ragged = RaggedLayer(head, flat, room, whole) if head.takes_rows else None
        self.weights = [(flat.of(layer.weight), flat.of(layer.bias)) for layer in dense]
        self.kind, self.dropout, self.room = KINDS[type(head.activation).__name__], Masks(head.dropout), room
        self.saved: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def forward(self, z: np.ndarray, batch: EngineBatch) -> np.ndarray:
        self.saved, graphs = [], len(batch.y)
        for i, ((weight, _), (bias, _)) in enumerate(self.weights):
            last, width = i + 1 == len(self.weights), len(bias)
            mask = NO_MASK if last else self.dropout.mask(graphs, width)
            kind = 0 if last else self.kind
            if i == 0 and self.ragged is not None:
                out = self.ragged.forward(z, batch)
                finish(out, bias, kind, mask)
            else:
                out = self.room.take(graphs, width)
                linear(z, weight, bias, kind, mask, out)
            self.saved.append((z, out, mask))
            z = out
        return z.reshape(-1)

    def backward(self, grad: np.ndarray) -> np.ndarray:
        """From the gradient of the predictions [B]: that of the readout's output."""
        grad = grad.reshape(-1, 1)
        for i in range(len(self.weights) - 1, -1, -1):
            (weight, grad_weight), (_, grad_bias) = self.weights[i]
            z, out, mask = self.saved[i]
            if i + 1 < len(self.weights):
                slope(grad, out, self.kind, mask, self.dropout.keep)
            if i == 0 and self.ragged is not None:
                return self.ragged.backward(grad)
            below = self.room.take(len(grad), z.shape[1])
            linear_back(grad, z, weight, grad_weight, grad_bias, below)
            grad = below
        return grad
