"""A chain of layers as one compiled call each way: between its steps there is no Python.

The same numbers as `layer.py`'s steps, but for rounding. For ReLU and linear layers in single precision on one core.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from permlab.readouts.compiled import compiled
from permlab.readouts.loops.bags import bags
from permlab.readouts.loops.gemm import outer, times
from permlab.readouts.loops.vectors import floats
from permlab.tasks.hop import Hop

_FLOAT = 4  # bytes
_LINE = 16  # floats: where memory is laid out, everything begins at a cache line

# What a row of a plan holds. Addresses are 0 where there is nothing.
(
    _ROWS_IN,  # n, of the layer's input
    _ROWS_OUT,  # m
    _P,  # the weight is [p, q]
    _Q,
    _FIRST,  # whether the product with the weight comes before that with A
    _RELU,
    _LINEAR,  # whether the weight is kept as [q, p]
    _WEIGHT,  # none: a product with A alone, p = q
    _BIAS,
    _INPUT,  # [n, p]
    _MIDDLE,  # A H [m, p], or H W [n, q] if that comes first; none without A
    _OUTPUT,  # [m, q]
    _SIZES,  # [m], how often the bias counts in every row
    _FORTH,  # A: ptr, column, value
    _BACK,  # Aᵀ as a product of one matrix or two: how many, and of the first and the last ptr, column, value, rows
) = (*range(13), 13, 16)
_NO_STEP = (0,) * 13


@compiled
def _forward(plan: np.ndarray) -> None:
    none = np.int64(0)  # a literal 0 would have every loop compiled again
    for layer in plan:
        n, m, p, q, relu, bias = (layer[_ROWS_IN], layer[_ROWS_OUT], layer[_P], layer[_Q], layer[_RELU], layer[_BIAS])
        weight, w_row, w_column = layer[_WEIGHT], 1 if layer[_LINEAR] else q, p if layer[_LINEAR] else 1
        source, middle, out = layer[_INPUT], layer[_MIDDLE], layer[_OUTPUT]
        ptr, column, value = layer[_FORTH], layer[_FORTH + 1], layer[_FORTH + 2]
        if not weight:
            bags(source, p, ptr, m, column, value, none, none, none, out)
            continue
        once, now = (none, none) if layer[_SIZES] else (bias, relu)
        if ptr and layer[_FIRST]:
            times(source, p, n, p, weight, w_row, w_column, none, q, none, none, none, middle, q)
            bags(middle, q, ptr, m, column, value, once, now, none, out)
        else:
            if ptr:
                bags(source, p, ptr, m, column, value, none, none, none, middle)
                source = middle
            times(source, p, m, p, weight, w_row, w_column, once, q, now, none, none, out, q)
        if layer[_SIZES]:
            _add_often(floats(out, m * q), floats(layer[_SIZES], m), floats(bias, q), relu)


@compiled
def _add_often(z: np.ndarray, sizes: np.ndarray, bias: np.ndarray, relu: int) -> None:
    """σ(z + size · bias), in place."""
    q = len(bias)
    for i in range(len(z)):
        z[i] += sizes[i // q] * bias[i % q]
        if relu and z[i] < 0:
            z[i] = 0


@compiled
def row_sum(grad: int, rows: int, q: int, sizes: int, out: int) -> None:
    """The sum of so many rows of q floats, each taken as often as `sizes` says, or once."""
    source, total, often = floats(grad, rows * q), floats(out, q), floats(sizes, rows if sizes else 0)
    total[:] = 0
    for start in range(0, rows, 64):
        part = np.zeros(q, dtype=np.float32)
        for i in range(start, min(start + 64, rows)):
            row, factor = source[i * q : (i + 1) * q], often[i] if sizes else np.float32(1)
            for c in range(q):
                part[c] += factor * row[c]
        for c in range(q):
            total[c] += part[c]


@compiled
def _shut(grad: int, gate: int, count: int, out: int) -> None:
    """So many floats, or 0 where the gate is not positive."""
    source, gates, result = floats(grad, count), floats(gate, count), floats(out, count)
    for i in range(count):
        result[i] = np.float32(0) if gates[i] <= 0 else source[i]  # what is no number lets through


@compiled
def _backward(plan: np.ndarray, grads: np.ndarray, given: int, grad_input: int, rooms: np.ndarray) -> None:
    """`grads` [2 · layers]: where the gradients of weights and biases go.

    What is made on the way goes to two rooms in turn. The gradient of the chain's input is left out if it has no place
    (0).
    """
    grad, turn, none = given, 0, np.int64(0)
    if plan[-1, _RELU]:
        _shut(grad, plan[-1, _OUTPUT], plan[-1, _ROWS_OUT] * plan[-1, _Q], rooms[0])
        grad, turn = rooms[0], 1
    for i in range(len(plan) - 1, -1, -1):
        layer = plan[i]
        p, q, rows, hops = layer[_P], layer[_Q], layer[_ROWS_OUT], layer[_BACK]
        gate = plan[i - 1, _OUTPUT] if i and plan[i - 1, _RELU] else none
        if layer[_WEIGHT]:
            row_sum(grad, rows, q, layer[_SIZES], grads[2 * i + 1])
        for hop in range(hops if layer[_FIRST] else 0):
            ptr, column, value, rows = layer[_BACK + 1 + 4 * hop : _BACK + 5 + 4 * hop]
            bags(grad, q, ptr, rows, column, value, none, none, none, rooms[turn])
            grad, turn = rooms[turn], 1 - turn
        source = layer[_INPUT] if layer[_FIRST] or not hops else layer[_MIDDLE]
        if layer[_LINEAR]:
            outer(grad, rows, q, source, p, grads[2 * i], p)
        elif layer[_WEIGHT]:
            outer(source, rows, p, grad, q, grads[2 * i], q)
        if i == 0 and not grad_input:
            return
        hops = 0 if layer[_FIRST] else hops
        if layer[_WEIGHT]:
            w_row, w_column = (p, 1) if layer[_LINEAR] else (1, q)
            to = grad_input if i == 0 and not hops else rooms[turn]
            at_once = none if hops else gate
            times(grad, q, rows, q, layer[_WEIGHT], w_row, w_column, none, p, none, at_once, none, to, p)
            grad, turn = to, 1 - turn
        for hop in range(hops):
            ptr, column, value, rows = layer[_BACK + 1 + 4 * hop : _BACK + 5 + 4 * hop]
            last = hop + 1 == hops
            to = grad_input if i == 0 and last else rooms[turn]
            bags(grad, p, ptr, rows, column, value, none, none, gate if last else none, to)
            grad, turn = to, 1 - turn


class _Plan(NamedTuple):
    rows: np.ndarray  # a row a layer
    memory: Tensor  # what is made on the way
    widest: int  # floats of the largest matrix


def _plan(h: Tensor, layers: Any, steps: Any, parameters: Sequence[Tensor]) -> tuple[_Plan, Tensor]:
    (rows, width), room, widest, shapes = h.shape, 0, 0, []
    for layer, step, weight in zip(layers, steps, parameters[::2], strict=False):
        p, q = weight.shape
        if layer.linear:
            p, q = q, p
        if p != width:
            raise ValueError(f"a layer takes {p} columns, but is given {width}")
        width = q
        out_rows = rows if step is None else step.forth.ptr.shape[0] - 1
        first = step is not None and rows * q < out_rows * p
        middle = 0 if step is None else _lines(rows * q if first else out_rows * p)
        shapes.append((rows, out_rows, p, q, first, layer.activation == "relu", layer.linear, room, room + middle))
        room += middle + _lines(out_rows * q)
        widest, rows = max(widest, max(rows, out_rows) * max(p, q)), out_rows
    if len(steps) > len(layers):
        p, q, out_rows = width, width, steps[-1].forth.ptr.shape[0] - 1
        shapes.append((rows, out_rows, p, q, False, False, False, room, room))
        widest, rows = max(widest, max(rows, out_rows) * p), out_rows
    memory, out = h.new_empty(shapes[-1][-1]), h.new_empty(rows, q)
    base, source, last, plan = memory.data_ptr(), h.data_ptr(), out.data_ptr(), []
    for i, (*shape, middle, made) in enumerate(shapes):
        result, step = base + _FLOAT * made if i + 1 < len(shapes) else last, steps[i]
        own = (each.data_ptr() for each in parameters[2 * i : 2 * i + 2]) if i < len(layers) else (0, 0)
        row = [*shape, *own, source]
        if step is None:
            row += (0, result, *_NO_STEP)
        else:
            back = [(*_addresses(hop), hop.ptr.shape[0] - 1) for hop in step.back]
            sizes = 0 if step.sizes is None else step.sizes.data_ptr()
            row += (base + _FLOAT * middle, result, sizes, *_addresses(step.forth), len(back), *back[0], *back[-1])
        plan.append(row)
        source = result
    return _Plan(np.array(plan), memory, _lines(widest)), out


def _addresses(hop: Hop) -> tuple[int, int, int]:
    return hop.ptr.data_ptr(), hop.column.data_ptr(), 0 if hop.value is None else hop.value.data_ptr()


def _lines(count: int) -> int:
    return -(-count // _LINE) * _LINE


class FusedChain(torch.autograd.Function):
    """`layer._Chain`, by two compiled calls."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, layers: Any, steps: Any, flat: bool, *parameters: Tensor) -> Tensor:
        plan, out = _plan(h, layers, steps, parameters)
        _forward(plan.rows)
        ctx.save_for_backward(out, h, *parameters)
        ctx.plan, ctx.steps = plan, steps  # the plan tells where all of these lie
        return out.view(-1) if flat else out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (_, h, *parameters), plan, grad = ctx.saved_tensors, ctx.plan, grad.contiguous()
        gradients = [torch.empty_like(each) for each in parameters]
        memory = h.new_empty(2 * plan.widest)
        rooms = np.array([memory.data_ptr(), memory.data_ptr() + _FLOAT * plan.widest])
        grad_h = torch.empty_like(h) if ctx.needs_input_grad[0] else None
        places = np.array([each.data_ptr() for each in gradients], dtype=np.int64)
        _backward(plan.rows, places, grad.data_ptr(), 0 if grad_h is None else grad_h.data_ptr(), rooms)
        return grad_h, None, None, None, *gradients
