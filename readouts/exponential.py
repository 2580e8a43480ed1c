"""exp of the rows of a matrix and its sums over the rows of every graph, compiled: in one pass, sixteen at a time."""

import math
from typing import Any

import numpy as np
from llvmlite import ir

from permlab.readouts.compiled import compiled
from permlab.readouts.vectors import (
    LANES,
    NUMBER,
    ROW,
    TAIL,
    Row,
    block,
    call,
    loop,
    offset,
    pointer,
    spread,
    tile,
)

_LOW = -87.0  # exp of less is no normal number: it is taken for this
_LN2 = (0.693359375, -2.12194440e-4)  # ln 2 as a sum whose first part has few digits
_TERMS = tuple(1 / math.factorial(k) for k in range(7, -1, -1))


def _exp(builder: ir.IRBuilder, x: Any) -> Any:
    """e^x = 2^k e^r, r = x − k ln 2 in ±ln 2 / 2, by Taylor's polynomial of degree 7; −87 ≤ x ≤ 0."""

    def constant(value: float) -> Any:
        return ir.Constant(x.type, [value] * x.type.count)

    def fma(a: Any, b: Any, c: Any) -> Any:
        return call(builder, f"llvm.fma.v{x.type.count}f32", x.type, (a, b, c))

    k = call(builder, f"llvm.rint.v{x.type.count}f32", x.type, (builder.fmul(x, constant(1 / math.log(2))),))
    r = fma(k, constant(-_LN2[1]), fma(k, constant(-_LN2[0]), x))
    value = constant(_TERMS[0])
    for term in _TERMS[1:]:
        value = fma(value, r, constant(term))
    whole = ir.VectorType(NUMBER, x.type.count)
    exponent = builder.add(builder.fptosi(k, whole), ir.Constant(whole, [127] * x.type.count))
    power = builder.bitcast(builder.shl(exponent, ir.Constant(whole, [23] * x.type.count)), x.type)
    return builder.fmul(value, power)


def _body(builder: ir.IRBuilder, row: Row, *numbers: Any) -> None:
    """z = exp(min(factor z + bias − minus, 0)), and its sum, of so many rows of q floats; factor and minus [rows]."""
    z, q, count, factor, minus, bias, out = numbers
    first = pointer(builder, z)

    def step(i: Any, sums: list[Any]) -> list[Any]:
        place, made = offset(builder, first, i, q), []
        scale, shift = (builder.load(offset(builder, pointer(builder, each), i)) for each in (factor, minus))
        added = row.add(scale, row.load(place), row.load(pointer(builder, bias)))
        for value in added:
            x = builder.fsub(value, spread(builder, value.type, shift))
            for bound, relation in ((0.0, ">"), (_LOW, "<")):  # what is no number stays
                limit = ir.Constant(value.type, [bound] * value.type.count)
                x = builder.select(builder.fcmp_ordered(relation, x, limit), limit, x)
            made.append(_exp(builder, x))
        row.store(made, place)
        return [builder.fadd(*pair) for pair in zip(made, sums, strict=True)]

    row.store(loop(builder, count, row.zeros(), step), pointer(builder, out))


_exp_rows = tile(_body, ROW)


@compiled
def exp_sums(z: int, q: int, ptr: np.ndarray, factor: int, minus: int, bias: int, out: int) -> None:
    """z [n, q] becomes exp(min(factor z + bias − minus, 0)), and out [B, q] its sums over the rows of every graph.

    factor and minus [n], bias [q].
    """
    first = 0
    while first < q:
        part = block(first, q, ROW)
        for b in range(len(ptr) - 1):
            at = 4 * ptr[b]
            count, place, to = ptr[b + 1] - ptr[b], z + at * q + 4 * first, out + 4 * (b * q + first)
            _exp_rows((place, q, count, factor + at, minus + at, bias + 4 * first, to), part)
        first += LANES * part[1] + TAIL * part[2]
