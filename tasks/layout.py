"""Where everything of a chain lies: a plan for `fused.py`, a row of whole numbers a link.

A link is a layer σ(A H W + b), with a sum over neighbours A or without, a product with A alone, or a sum of Gaussian
kernels over the rows of every graph. Memory is given as addresses, which are 0 where there is nothing.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from permlab.readouts.compiled import compiled
from permlab.readouts.gaussian import Gaussian
from permlab.readouts.loops.vectors import address
from permlab.tasks.hop import Hop, Step

FLOAT = 4  # bytes
_LINE = 16  # floats: everything begins at a cache line

(
    ROWS_IN,  # n, of the link's input
    ROWS_OUT,  # m
    P,  # columns of the input; the weight is [p, q]
    Q,
    FIRST,  # whether the product with the weight comes before that with A
    RELU,
    LINEAR,  # whether the weight is kept as [q, p]
    WEIGHT,
    BIAS,
    INPUT,  # [n, p]
    MIDDLE,  # A H [m, p], or H W [n, q] if that comes first; of kernels, their values [n, q], then 1/‖x‖ [n]
    OUTPUT,  # [m, q]
    SIZES,  # [m], how often the bias counts in every row
    KERNELS,  # 1: a sum of Gaussian kernels
    FORTH,  # A: ptr, column, value; of kernels: ptr, F, the constant, the scale, whether rows are normalised
    BACK,  # Aᵀ as a product of one matrix or two: how many, and of the first and the last ptr, column, value, rows
) = (*range(15), 17)
_END = 26
_NO_STEP = (0,) * (_END - KERNELS + 2)


@compiled
def lines(count: int) -> int:
    """So many floats, up to the end of a cache line."""
    return -(-count // _LINE) * _LINE


@compiled
def lay_out(links: np.ndarray, steps: np.ndarray, n: int, source: int) -> tuple[Any, Any, Any, int]:
    """A plan for n rows that begin at `source`, room for what is made on the way, what is made, the widest matrix.

    `links` and `steps` are those of `described` and `addresses`.
    """
    plan, room, widest, count = np.empty((len(links), _END), dtype=np.int64), 0, 0, len(links)
    for i in range(count):
        row = plan[i]
        p, q, row[RELU], row[LINEAR], row[WEIGHT], row[BIAS] = links[i]
        made, row[SIZES], row[KERNELS:] = steps[i, 0], steps[i, 1], steps[i, 2:]
        m = made if row[FORTH] else n
        row[ROWS_IN], row[ROWS_OUT], row[P], row[Q], row[FIRST] = n, m, p, q, 0
        row[MIDDLE] = room
        if row[KERNELS]:
            room += lines(n * q) + lines(n)
        elif row[FORTH] and row[WEIGHT]:
            row[FIRST] = n * q < m * p
            room += lines(n * q if row[FIRST] else m * p)
        row[OUTPUT] = room
        room += lines(m * q)
        widest, n = max(widest, max(n, m) * max(p, q)), m
    memory, out = np.empty(plan[-1, OUTPUT], dtype=np.float32), np.empty((n, plan[-1, Q]), dtype=np.float32)
    for i in range(count):
        row = plan[i]
        row[INPUT], row[MIDDLE] = source, address(memory) + FLOAT * row[MIDDLE]
        source = address(memory) + FLOAT * row[OUTPUT] if i + 1 < count else address(out)
        row[OUTPUT] = source
    return plan, memory, out, lines(widest)


def described(layers: Any, parameters: Sequence[Tensor], steps: Any, width: int) -> np.ndarray:
    """[links, 6]: p, q, whether σ is ReLU, whether the weight is kept as [q, p], where weight and bias lie."""
    found, own = [], iter(parameters)
    for layer, step in zip(layers, steps, strict=True):
        if layer is None:
            p, q = step.f.shape if isinstance(step, Gaussian) else (width, width)
            if p != width:
                raise ValueError(f"the kernel vectors have {p} entries, but are given rows of {width}")
            found.append((width, q, 0, 0, 0, 0))
        else:
            weight, bias = next(own), next(own)
            p, q = weight.shape[::-1] if layer.linear else weight.shape
            if p != width:
                raise ValueError(f"a layer takes {p} columns, but is given {width}")
            found.append((p, q, layer.activation == "relu", layer.linear, weight.data_ptr(), bias.data_ptr()))
        width = q
    return np.array(found, dtype=np.int64)


def addresses(steps: Any) -> np.ndarray:
    """[links, 15]: the rows that a step makes, and what stands in a plan from `SIZES` on."""
    found: list[Any] = []
    for i, step in enumerate(steps):
        if step is None:
            found.append(_NO_STEP)
        elif i and step is steps[i - 1]:
            found.append(found[-1])
        else:
            found.append(_gaussian(step) if isinstance(step, Gaussian) else _step(step))
    return np.array(found, dtype=np.int64)


def _step(step: Step) -> tuple[int, ...]:
    forth, back = _hop(step.forth), [_hop(hop) for hop in step.back]
    sizes = 0 if step.sizes is None else step.sizes.data_ptr()
    return (forth[-1], sizes, 0, *forth[:-1], len(back), *back[0], *back[-1])


def _hop(hop: Hop) -> tuple[int, int, int, int]:
    ptr, column, value = hop
    return ptr.data_ptr(), column.data_ptr(), 0 if value is None else value.data_ptr(), ptr.shape[0] - 1


def _gaussian(step: Gaussian) -> tuple[int, ...]:
    ptr, f, constant, scale, normalise = step
    places = (each.data_ptr() for each in (ptr, f, constant, scale))
    return (ptr.shape[0] - 1, 0, 1, *places, normalise, *_NO_STEP[8:])
