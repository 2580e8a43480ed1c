"""A chain of layers as one compiled call each way: between its steps there is no Python.

The same numbers as `layer.py`'s steps, but for rounding. For ReLU and linear layers in single precision on one core.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from permlab.readouts.compiled import compiled, shared
from permlab.readouts.gaussian import sums_back, sums_forth
from permlab.readouts.loops.bags import bags
from permlab.readouts.loops.gemm import outer, times
from permlab.readouts.loops.vectors import address, floats, integers
from permlab.tasks.layout import (
    BACK,
    BIAS,
    FIRST,
    FLOAT,
    FORTH,
    INPUT,
    KERNELS,
    LINEAR,
    MIDDLE,
    OUTPUT,
    RELU,
    ROWS_IN,
    ROWS_OUT,
    SIZES,
    WEIGHT,
    P,
    Q,
    addresses,
    described,
    lay_out,
    lines,
)
from permlab.tasks.losses import entropy, error

_SUMMED = 64  # rows


@compiled
def _forward(links: np.ndarray, steps: np.ndarray, n: int, source: int) -> tuple[Any, Any, Any, int]:
    """What `lay_out` gives, filled."""
    laid = lay_out(links, steps, n, source)
    for layer in laid[0]:
        n, m, p, q, relu, bias = (layer[ROWS_IN], layer[ROWS_OUT], layer[P], layer[Q], layer[RELU], layer[BIAS])
        weight, w_row, w_column = layer[WEIGHT], 1 if layer[LINEAR] else q, p if layer[LINEAR] else 1
        source, middle, out = layer[INPUT], layer[MIDDLE], layer[OUTPUT]
        ptr, column, value = layer[FORTH], layer[FORTH + 1], layer[FORTH + 2]
        if layer[KERNELS]:
            sums_forth(*_kernels(layer), floats(out, m * q).reshape((m, q)))
            continue
        if not weight:
            bags(source, p, ptr, m, column, value, 0, 0, 0, out)
            continue
        once, now = (0, 0) if layer[SIZES] else (bias, relu)
        if ptr and layer[FIRST]:
            times(source, p, n, p, weight, w_row, w_column, 0, q, 0, 0, 0, middle, q)
            bags(middle, q, ptr, m, column, value, once, now, 0, out)
        else:
            if ptr:
                bags(source, p, ptr, m, column, value, 0, 0, 0, middle)
                source = middle
            times(source, p, m, p, weight, w_row, w_column, once, q, now, 0, 0, out, q)
        if layer[SIZES]:
            _add_often(floats(out, m * q), floats(layer[SIZES], m), floats(bias, q), relu)
    return laid


@compiled
def _kernels(link: np.ndarray) -> tuple[Any, ...]:
    """What a sum of kernels works on, from where it lies: x, ptr, F, the constant, scale, normalise, 1/‖x‖, values."""
    n, graphs, p, q, middle = link[ROWS_IN], link[ROWS_OUT], link[P], link[Q], link[MIDDLE]
    x, f = floats(link[INPUT], n * p).reshape((n, p)), floats(link[FORTH + 1], p * q).reshape((p, q))
    ptr, constant, scale = integers(link[FORTH], graphs + 1), floats(link[FORTH + 2], q), floats(link[FORTH + 3], 1)
    factor, values = floats(middle + FLOAT * lines(n * q), n), floats(middle, n * q).reshape((n, q))
    return x, ptr, f, constant, scale, link[FORTH + 4] != 0, factor, values


@compiled
def _add_often(z: np.ndarray, sizes: np.ndarray, bias: np.ndarray, relu: int) -> None:
    """σ(z + size · bias), in place."""
    q = len(bias)
    for i in range(len(z)):
        z[i] += sizes[i // q] * bias[i % q]
        if relu and z[i] < 0:
            z[i] = 0


@shared
def row_sum(grad: int, rows: int, q: int, sizes: int, out: int) -> None:
    """The sum of so many rows of q floats, each taken as often as `sizes` says, or once; of every 64 first."""
    count = -(-rows // _SUMMED)
    bounds, parts = np.empty(count + 2, dtype=np.int32), np.empty(count * q, dtype=np.float32)
    for part in range(count + 1):
        bounds[part] = min(part * _SUMMED, rows)
    bags(grad, q, address(bounds), count, 0, sizes, 0, 0, 0, address(parts))
    bounds[0], bounds[1] = 0, count
    bags(address(parts), q, address(bounds), 1, 0, 0, 0, 0, 0, out)
    parts[:1], bounds[:1] = 0, 0  # they are there until now


@compiled
def _shut(grad: int, gate: int, count: int, out: int) -> None:
    """So many floats, or 0 where the gate is not positive."""
    source, gates, result = floats(grad, count), floats(gate, count), floats(out, count)
    for i in range(count):
        result[i] = np.float32(0) if gates[i] <= 0 else source[i]  # what is no number lets through


@compiled
def _backward(plan: np.ndarray, grads: np.ndarray, given: int, grad_input: int, widest: int) -> None:
    """`grads` [layers, 2]: where the gradients of weights and biases go.

    What is made on the way goes to two rooms in turn, each as large as the widest matrix. The gradient of the chain's
    input is left out if it has no place (0).
    """
    memory = np.empty(2 * widest, dtype=np.float32)
    rooms = (address(memory), address(memory) + FLOAT * widest)
    grad, turn, place = given, 0, len(grads)
    if plan[-1, RELU]:
        _shut(grad, plan[-1, OUTPUT], plan[-1, ROWS_OUT] * plan[-1, Q], rooms[0])
        grad, turn = rooms[0], 1
    for i in range(len(plan) - 1, -1, -1):
        layer = plan[i]
        p, q, rows, hops = layer[P], layer[Q], layer[ROWS_OUT], layer[BACK]
        gate = plan[i - 1, OUTPUT] if i and plan[i - 1, RELU] else 0
        if layer[KERNELS] and i == 0 and not grad_input:
            break
        if layer[KERNELS]:
            to, n = rooms[turn] if i else grad_input, layer[ROWS_IN]
            sums_back(*_kernels(layer), floats(grad, rows * q).reshape((rows, q)), floats(to, n * p).reshape((n, p)))
            if gate:
                _shut(to, gate, n * p, to)
            grad, turn = to, 1 - turn
            continue
        if layer[WEIGHT]:
            place -= 1
            row_sum(grad, rows, q, layer[SIZES], grads[place, 1])
        for hop in range(hops if layer[FIRST] else 0):
            ptr, column, value, rows = layer[BACK + 1 + 4 * hop : BACK + 5 + 4 * hop]
            bags(grad, q, ptr, rows, column, value, 0, 0, 0, rooms[turn])
            grad, turn = rooms[turn], 1 - turn
        source = layer[INPUT] if layer[FIRST] or not hops else layer[MIDDLE]
        if layer[LINEAR]:
            outer(grad, rows, q, source, p, grads[place, 0], p)
        elif layer[WEIGHT]:
            outer(source, rows, p, grad, q, grads[place, 0], q)
        if i == 0 and not grad_input:
            break
        hops = 0 if layer[FIRST] else hops
        if layer[WEIGHT]:
            w_row, w_column = (p, 1) if layer[LINEAR] else (1, q)
            to = grad_input if i == 0 and not hops else rooms[turn]
            at_once = 0 if hops else gate
            times(grad, q, rows, q, layer[WEIGHT], w_row, w_column, 0, p, 0, at_once, 0, to, p)
            grad, turn = to, 1 - turn
        for hop in range(hops):
            ptr, column, value, rows = layer[BACK + 1 + 4 * hop : BACK + 5 + 4 * hop]
            last = hop + 1 == hops
            to = grad_input if i == 0 and last else rooms[turn]
            bags(grad, p, ptr, rows, column, value, 0, 0, gate if last else 0, to)
            grad, turn = to, 1 - turn
    memory[:1] = 0  # it is there until now


def _places(gradients: list[Tensor]) -> np.ndarray:
    """[layers, 2]: where those of weights and biases lie."""
    return np.array([each.data_ptr() for each in gradients], dtype=np.int64).reshape(-1, 2)


class FusedChain(torch.autograd.Function):
    """`layer._Chain`, by two compiled calls."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, layers: Any, steps: Any, flat: bool, *parameters: Tensor) -> Tensor:
        n, width = h.shape
        links = described(layers, parameters, steps, width)
        plan, memory, made, widest = _forward(links, addresses(steps), n, h.data_ptr())
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
        _backward(ctx.plan, _places(gradients), grad.data_ptr(), 0 if grad_h is None else grad_h.data_ptr(), ctx.widest)
        return grad_h, None, None, None, *gradients


@compiled
def _train(
    links: np.ndarray,
    steps: np.ndarray,
    n: int,
    source: int,
    y: np.ndarray,
    classes: bool,
    places: np.ndarray,
    loss: np.ndarray,
) -> None:
    plan, memory, out, widest = _forward(links, steps, n, source)
    predictions, grad = out.reshape(-1), np.empty(out.size, dtype=np.float32)
    if classes:
        entropy(predictions, y, grad, loss)
    else:
        error(predictions, y, grad, loss)
    _backward(plan, places, address(grad), np.int64(0), widest)
    memory[:1], grad[:1], predictions[:1] = 0, 0, 0  # they are there until now


class FusedLoss(torch.autograd.Function):
    """The loss of a chain that ends in a number a graph, its gradients made at once: one compiled call for a step.

    No gradient for h and y.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, layers: Any, steps: Any, y: Tensor, classes: bool, *parameters: Tensor) -> Tensor:
        (n, width), loss = h.shape, h.new_empty(())
        gradients = [torch.empty_like(each) for each in parameters]
        links = described(layers, parameters, steps, width)
        _train(links, addresses(steps), n, h.data_ptr(), y.numpy(), classes, _places(gradients), loss.numpy())
        ctx.gradients = gradients
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scale = grad.item()
        gradients = ctx.gradients if scale == 1 else [scale * each for each in ctx.gradients]
        return None, None, None, None, None, *gradients
