"""A chain of layers as one compiled call each way: between its steps there is no Python.

The same numbers as `layer.py`'s steps, but for rounding. For ReLU and linear layers in single precision on one core.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from permlab.readouts.compiled import compiled
from permlab.readouts.loops.bags import bags
from permlab.readouts.loops.gemm import outer, times
from permlab.readouts.loops.vectors import address, floats
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
_COLUMNS = 25
_SUMMED = 64  # rows
_NO_STEP = (0,) * 14


@compiled
def _lay_out(layers: np.ndarray, steps: np.ndarray, n: int, source: int) -> tuple[Any, Any, Any, int]:
    """A plan for n rows that begin at `source`, room for what is made on the way, what is made, the widest matrix."""
    plan, room, widest, count = np.empty((len(layers), _COLUMNS), dtype=np.int64), 0, 0, len(layers)
    for i in range(count):
        row, step = plan[i], steps[i]
        p, q, row[_RELU], row[_LINEAR], row[_WEIGHT], row[_BIAS] = layers[i]
        there, sizes, row[_FORTH:] = step[0], step[1], step[2:]
        m = there if row[_FORTH] else n
        row[_ROWS_IN], row[_ROWS_OUT], row[_P], row[_Q], row[_SIZES] = n, m, p, q, sizes
        row[_FIRST] = row[_FORTH] and row[_WEIGHT] and n * q < m * p
        row[_MIDDLE] = room
        if row[_FORTH] and row[_WEIGHT]:
            room += _lines(n * q if row[_FIRST] else m * p)
        row[_OUTPUT] = room
        room += _lines(m * q)
        widest, n = max(widest, max(n, m) * max(p, q)), m
    memory, out = np.empty(plan[-1, _OUTPUT], dtype=np.float32), np.empty((n, plan[-1, _Q]), dtype=np.float32)
    for i in range(count):
        row = plan[i]
        row[_INPUT], row[_MIDDLE] = source, address(memory) + _FLOAT * row[_MIDDLE]
        source = address(memory) + _FLOAT * row[_OUTPUT] if i + 1 < count else address(out)
        row[_OUTPUT] = source
    return plan, memory, out, _lines(widest)


@compiled
def _lines(count: int) -> int:
    return -(-count // _LINE) * _LINE


@compiled
def _forward(layers: np.ndarray, steps: np.ndarray, n: int, source: int) -> tuple[Any, Any, Any, int]:
    laid = _lay_out(layers, steps, n, source)
    none = np.int64(0)  # a literal 0 would have every loop compiled again
    for layer in laid[0]:
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
    return laid


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
    """The sum of so many rows of q floats, each taken as often as `sizes` says, or once; of every 64 first."""
    count, none = -(-rows // _SUMMED), np.int64(0)
    bounds, parts = np.empty(count + 2, dtype=np.int32), np.empty(count * q, dtype=np.float32)
    for part in range(count + 1):
        bounds[part] = min(part * _SUMMED, rows)
    bags(grad, q, address(bounds), count, none, sizes, none, none, none, address(parts))
    bounds[0], bounds[1] = 0, count
    bags(address(parts), q, address(bounds), np.int64(1), none, none, none, none, none, out)
    parts[:1], bounds[:1] = 0, 0  # they are there until now


@compiled
def _shut(grad: int, gate: int, count: int, out: int) -> None:
    """So many floats, or 0 where the gate is not positive."""
    source, gates, result = floats(grad, count), floats(gate, count), floats(out, count)
    for i in range(count):
        result[i] = np.float32(0) if gates[i] <= 0 else source[i]  # what is no number lets through


@compiled
def _backward(plan: np.ndarray, grads: np.ndarray, given: int, grad_input: int, widest: int) -> None:
    """`grads` [2 · layers]: where the gradients of weights and biases go.

    What is made on the way goes to two rooms in turn, each as large as the widest matrix. The gradient of the chain's
    input is left out if it has no place (0).
    """
    memory = np.empty(2 * widest, dtype=np.float32)
    rooms = (address(memory), address(memory) + _FLOAT * widest)
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
            break
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
    memory[:1] = 0  # it is there until now


def _described(layers: Any, parameters: Sequence[Tensor], width: int, count: int) -> np.ndarray:
    """[count, 6]: p, q, whether σ is ReLU, whether the weight is kept as [q, p], where weight and bias lie.

    Behind the layers there may be products with A alone.
    """
    found = []
    for i, (activation, linear) in enumerate(layers):
        weight, bias = parameters[2 * i], parameters[2 * i + 1]
        p, q = weight.shape[::-1] if linear else weight.shape
        if p != width:
            raise ValueError(f"a layer takes {p} columns, but is given {width}")
        found.append((p, q, activation == "relu", linear, weight.data_ptr(), bias.data_ptr()))
        width = q
    return np.array(found + [(width, width, 0, 0, 0, 0)] * (count - len(found)), dtype=np.int64)


def _addresses(steps: Any) -> np.ndarray:
    """[steps, 14]: the rows that a step makes, its sizes, A, and Aᵀ as `_BACK` has it."""
    found: list[Any] = []
    for i, step in enumerate(steps):
        if step is None:
            found.append(_NO_STEP)
        elif i and step is steps[i - 1]:
            found.append(found[-1])
        else:
            forth, back = _hop(step.forth), [_hop(hop) for hop in step.back]
            sizes = 0 if step.sizes is None else step.sizes.data_ptr()
            found.append((forth[-1], sizes, *forth[:-1], len(back), *back[0], *back[-1]))
    return np.array(found, dtype=np.int64)


def _hop(hop: Hop) -> tuple[int, int, int, int]:
    ptr, column, value = hop
    return ptr.data_ptr(), column.data_ptr(), 0 if value is None else value.data_ptr(), ptr.shape[0] - 1


class FusedChain(torch.autograd.Function):
    """`layer._Chain`, by two compiled calls."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, layers: Any, steps: Any, flat: bool, *parameters: Tensor) -> Tensor:
        n, width = h.shape
        described = _described(layers, parameters, width, len(steps))
        plan, memory, made, widest = _forward(described, _addresses(steps), n, h.data_ptr())
        out = torch.from_numpy(made)
        ctx.save_for_backward(out, h, *parameters)
        ctx.plan, ctx.widest, ctx.kept = plan, widest, (memory, steps)  # the plan tells where all of these lie
        return out.view(-1) if flat else out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (_, h, *parameters), grad = ctx.saved_tensors, grad.contiguous()
        gradients = [torch.empty_like(each) for each in parameters]
        grad_h = torch.empty_like(h) if ctx.needs_input_grad[0] else None
        places = np.array([each.data_ptr() for each in gradients], dtype=np.int64)
        _backward(ctx.plan, places, grad.data_ptr(), 0 if grad_h is None else grad_h.data_ptr(), ctx.widest)
        return grad_h, None, None, None, *gradients
