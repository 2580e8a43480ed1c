"""exp, sixteen at a time, and its sums over the rows of every graph in one pass, compiled."""

import math
from typing import Any

import numpy as np
from llvmlite import ir

from permlab.readouts.compiled import compiled
from permlab.readouts.loops.vectors import (
    LANES,
    NUMBER,
    ROW,
    TAIL,
    Row,
    address,
    block,
    call,
    fma,
    loop,
    offset,
    pointer,
    spread,
    tile,
)

_LOW = -87.0  # exp of less is no normal number: it is taken for this
_LN2 = (0.693359375, -2.12194440e-4)  # ln 2 as a sum whose first part has few digits
_TERMS = tuple(1 / math.factorial(k) for k in range(7, 0, -1))


def constant(like: Any, value: float) -> Any:
    return ir.Constant(like.type, [value] * like.type.count)


def exp_parts(builder: ir.IRBuilder, x: Any) -> tuple[Any, Any]:
    """2^k and e^r − 1 with e^x = 2^k e^r, r = x − k ln 2 in ±ln 2 / 2, by Taylor's polynomial; for x ≤ 0.

    What is less than −87 is taken for that; what is no number stays.
    """
    low = constant(x, _LOW)
    x = builder.select(builder.fcmp_ordered("<", x, low), low, x)
    scaled = builder.fmul(x, constant(x, 1 / math.log(2)))
    k = call(builder, f"llvm.rint.v{x.type.count}f32", x.type, (scaled,))
    r = fma(builder, k, constant(x, -_LN2[1]), fma(builder, k, constant(x, -_LN2[0]), x))
    value = constant(x, _TERMS[0])
    for term in _TERMS[1:]:
        value = fma(builder, value, r, constant(x, term))
    whole = ir.VectorType(NUMBER, x.type.count)
    exponent = builder.add(builder.fptosi(k, whole), ir.Constant(whole, [127] * x.type.count))
    power = builder.bitcast(builder.shl(exponent, ir.Constant(whole, [23] * x.type.count)), x.type)
    return power, builder.fmul(value, r)


def exp(builder: ir.IRBuilder, x: Any) -> Any:
    """e^x for x ≤ 0."""
    power, rest = exp_parts(builder, x)
    return fma(builder, power, rest, power)


def _body(builder: ir.IRBuilder, row: Row, *numbers: Any) -> None:
    """z = exp(min(factor z + bias − minus, 0)), and its sum, of so many rows of q floats; factor and minus [rows]."""
    z, q, count, factor, minus, bias, out = numbers
    first = pointer(builder, z)

    def step(i: Any, sums: list[Any]) -> list[Any]:
        place, made = offset(builder, first, i, q), []
        scale, shift = (builder.load(offset(builder, pointer(builder, each), i)) for each in (factor, minus))
        added = row.add(scale, row.load(place), row.load(pointer(builder, bias)))
        for value in added:
            x, zero = builder.fsub(value, spread(builder, value.type, shift)), constant(value, 0.0)
            made.append(exp(builder, builder.select(builder.fcmp_ordered(">", x, zero), zero, x)))
        row.store(made, place)
        return [builder.fadd(*pair) for pair in zip(made, sums, strict=True)]

    row.store(loop(builder, count, row.zeros(), step), pointer(builder, out))


_exp_rows = tile(_body, ROW)


@compiled
def exp_sums(
    z: np.ndarray, ptr: np.ndarray, factor: np.ndarray, minus: np.ndarray, bias: np.ndarray, out: np.ndarray
) -> None:
    """z [n, q] becomes exp(min(factor z + bias − minus, 0)), and out [B, q] its sums over the rows of every graph.

    factor and minus [n], bias [q].
    """
    first, q = 0, len(bias)
    while first < q:
        part = block(first, q, ROW)
        for b in range(len(out)):
            at, count = 4 * ptr[b], ptr[b + 1] - ptr[b]
            place, to = address(z) + at * q + 4 * first, address(out) + 4 * (b * q + first)
            rows = (address(factor) + at, address(minus) + at, address(bias) + 4 * first)
            _exp_rows((place, q, count, rows[0], rows[1], rows[2], to), part)
        first += LANES * part[1] + TAIL * part[2]


def _softmax_body(builder: ir.IRBuilder, row: Row, *numbers: Any) -> None:
    """x = exp(x − largest), a row of floats."""
    x, largest = numbers
    place = pointer(builder, x)
    shift = builder.load(pointer(builder, largest))
    row.store([exp(builder, builder.fsub(each, spread(builder, each.type, shift))) for each in row.load(place)], place)


_exp_row = tile(_softmax_body, ROW)


@compiled(any_order=True)
def softmax(x: np.ndarray) -> None:
    """Of one graph's scores [m], in place."""
    largest = np.full(1, -np.inf, dtype=np.float32)
    for i in range(len(x)):
        largest[0] = max(largest[0], x[i])
    first = 0
    while first < len(x):
        part = block(first, len(x), ROW)
        _exp_row((address(x) + 4 * first, address(largest)), part)
        first += LANES * part[1] + TAIL * part[2]
    total = np.float32(0)
    for i in range(len(x)):
        total += x[i]
    for i in range(len(x)):
        x[i] /= total
    largest[0] = total
