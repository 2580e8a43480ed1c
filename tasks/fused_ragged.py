"""The ragged layer as one compiled call each way; see `ragged.py` for what it computes."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from permlab.readouts.compiled import compiled
from permlab.readouts.loops.gemm import outer, times
from permlab.readouts.loops.padding import pad, unpad
from permlab.readouts.loops.vectors import address, floats
from permlab.tasks.fused import row_sum


@compiled
def _blocks(ptr: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Graphs by size, largest first; how many reach into every block of positions; where its padded rows begin."""
    sizes = ptr[1:] - ptr[:-1]
    order = np.argsort(-sizes, kind="mergesort")
    reach, start = np.zeros(len(edges) - 1, dtype=np.int64), np.zeros(len(edges), dtype=np.int64)
    for block in range(len(reach)):
        m = reach[block - 1] if block else len(sizes)
        while m and sizes[order[m - 1]] <= edges[block]:
            m -= 1
        reach[block] = m
        start[block + 1] = start[block] + m * (edges[block + 1] - edges[block])
    return order, reach, start


@compiled
def _forward(
    rows: np.ndarray,
    ptr: np.ndarray,
    edges: np.ndarray,
    order: np.ndarray,
    reach: np.ndarray,
    start: np.ndarray,
    weight: int,
    bias: int,
    relu: bool,
    padded: np.ndarray,
    out: np.ndarray,
) -> None:
    """`padded` [blocks' rows, k] is filled. The product is W times the padded rows as columns: short graphs are few."""
    k, (graphs, width) = rows.shape[1], out.shape
    w_row = edges[-1] * k
    columns, constant = np.empty((width, graphs), dtype=np.float32), floats(bias, width)
    for i in range(width):
        columns[i] = constant[i]
    to = address(columns)
    for block in range(len(reach)):
        m, low, high = reach[block], edges[block], edges[block + 1]
        if m == 0:
            break
        here, terms = padded[start[block] : start[block + 1]], (high - low) * k
        pad(rows, ptr, order[:m], low, high, here)
        source = address(here)
        times(weight + 4 * low * k, w_row, width, terms, source, 1, terms, 0, m, 0, 0, 1, to, graphs)
    for place in range(graphs):
        row = out[order[place]]
        for i in range(width):
            row[i] = max(columns[i, place], np.float32(0)) if relu else columns[i, place]


@compiled
def _backward(
    grad: np.ndarray,
    out: np.ndarray,
    ptr: np.ndarray,
    edges: np.ndarray,
    order: np.ndarray,
    reach: np.ndarray,
    start: np.ndarray,
    weight: int,
    relu: bool,
    padded: np.ndarray,
    grad_weight: np.ndarray,
    grad_bias: int,
    grad_rows: np.ndarray,
    sorted_grad: np.ndarray,
) -> None:
    """`sorted_grad` is room for one more gradient."""
    k, (graphs, width) = padded.shape[1], grad.shape
    w_row, room = edges[-1] * k, 0
    for place in range(graphs):
        given, made, gate = grad[order[place]], sorted_grad[place], out[order[place]]
        for i in range(width):
            made[i] = np.float32(0) if relu and gate[i] <= 0 else given[i]
    for block in range(len(reach)):
        room = max(room, reach[block] * (edges[block + 1] - edges[block]))
    memory, source = np.empty(room * k, dtype=np.float32), address(sorted_grad)
    row_sum(source, graphs, width, 0, grad_bias)
    to = address(grad_weight)
    for block in range(len(reach)):
        m, low, high = reach[block], edges[block], edges[block + 1]
        here, terms = padded[start[block] : start[block + 1]], (high - low) * k
        if m == 0:
            grad_weight[:, low * k :] = 0
            break
        outer(source, m, width, address(here), terms, to + 4 * low * k, w_row)
        made = memory[: m * terms].reshape((m, terms))
        right, there = weight + 4 * low * k, address(made)
        times(source, width, m, width, right, w_row, 1, 0, terms, 0, 0, 0, there, terms)
        unpad(made, ptr, order[:m], low, high, grad_rows)


class FusedRagged(torch.autograd.Function):
    """σ(Σ_i W_i rows[b, i] + bias) for every graph b, σ being ReLU or nothing."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, ptr: Tensor, layer: Any, relu: bool) -> Tensor:
        bounds, source = ptr.numpy(), rows.contiguous().numpy()
        plan = (bounds, layer.edge_array, *_blocks(bounds, layer.edge_array))
        padded, out = (
            np.empty((plan[-1][-1], rows.size(1)), dtype=np.float32),
            rows.new_empty(len(bounds) - 1, len(bias)),
        )
        _forward(source, *plan, weight.data_ptr(), bias.data_ptr(), relu, padded, out.numpy())
        ctx.save_for_backward(out, weight)
        ctx.plan, ctx.padded, ctx.layer, ctx.relu = plan, padded, layer, relu
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        out, weight = ctx.saved_tensors
        grad_weight, grad_bias = ctx.layer.gradient_memory(), grad.new_empty(grad.size(1))
        grad_rows = grad.new_empty(int(ctx.plan[0][-1]), ctx.padded.shape[1])
        places = (grad_weight.numpy(), grad_bias.data_ptr(), grad_rows.numpy(), np.empty(out.shape, dtype=np.float32))
        given = (grad.contiguous().numpy(), out.numpy())
        _backward(*given, *ctx.plan, weight.data_ptr(), ctx.relu, ctx.padded, *places)
        return grad_rows, grad_weight, grad_bias, None, None, None
