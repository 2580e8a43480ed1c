"""What an LSTM does with its gates, and the gradient of that, compiled."""

from typing import Any

import numpy as np
from llvmlite import ir

from permlab.readouts.compiled import compiled
from permlab.readouts.loops.exponential import constant, exp_parts
from permlab.readouts.loops.vectors import AT_ONCE, LANES, TAIL, Row, address, block, call, fma, offset, pointer, tile


def _magnitude(builder: ir.IRBuilder, x: Any) -> Any:
    return call(builder, f"llvm.fabs.v{x.type.count}f32", x.type, (x,))


def _sigmoid(builder: ir.IRBuilder, x: Any) -> Any:
    """1/(1 + e^−x), by e^−|x|."""
    power, rest = exp_parts(builder, builder.fneg(_magnitude(builder, x)))
    small = fma(builder, power, rest, power)
    inverse = builder.fdiv(constant(x, 1.0), builder.fadd(constant(x, 1.0), small))
    negative = builder.fcmp_ordered("<", x, constant(x, 0.0))
    return builder.select(negative, builder.fmul(small, inverse), inverse)


def _tanh(builder: ir.IRBuilder, x: Any) -> Any:
    """−w/(2 + w) with the sign of x, w = e^(−2|x|) − 1."""
    power, rest = exp_parts(builder, builder.fmul(_magnitude(builder, x), constant(x, -2.0)))
    w = fma(builder, power, rest, builder.fsub(power, constant(x, 1.0)))
    value = builder.fdiv(builder.fneg(w), builder.fadd(constant(x, 2.0), w))
    return call(builder, f"llvm.copysign.v{x.type.count}f32", x.type, (value, x))


def _body(builder: ir.IRBuilder, row: Row, *numbers: Any) -> None:
    """One row of gates i, f, g, o, each d floats: activated in place; c = f c₀ + i g, tanh c, q = o tanh c."""
    gates, d, before, cell, slope, q = numbers
    places = [pointer(builder, gates)]
    for _ in range(3):
        places.append(offset(builder, places[-1], d))
    i, f, g, o = (row.load(place) for place in places)
    i, f, o = ([_sigmoid(builder, each) for each in gate] for gate in (i, f, o))
    g = [_tanh(builder, each) for each in g]
    for gate, place in zip((i, f, g, o), places, strict=True):
        row.store(gate, place)
    old = row.load(pointer(builder, before))
    new = [fma(builder, f[k], old[k], builder.fmul(i[k], g[k])) for k in range(row.count)]
    curved = [_tanh(builder, each) for each in new]
    row.store(new, pointer(builder, cell))
    row.store(curved, pointer(builder, slope))
    row.store([builder.fmul(*pair) for pair in zip(o, curved, strict=True)], pointer(builder, q))


_cell = tile(_body)


@compiled
def advance(gates: np.ndarray, before: np.ndarray, cell: np.ndarray, slope: np.ndarray, q: np.ndarray) -> None:
    """gates [B, 4d], before [B or 1, d] → cell, slope, q [B, d]; see `_body`."""
    d, same = cell.shape[1], len(before) == 1
    for b in range(len(cell)):
        first, at = 0, 4 * b * d
        while first < d:
            part = block(first, d, AT_ONCE)
            here = at + 4 * first
            old = address(before) + 4 * first + (0 if same else at)
            _cell(
                (
                    address(gates) + 4 * at + 4 * first,
                    d,
                    old,
                    address(cell) + here,
                    address(slope) + here,
                    address(q) + here,
                ),
                part,
            )
            first += LANES * part[1] + TAIL * part[2]


@compiled
def retreat(
    gates: np.ndarray,
    before: np.ndarray,
    slope: np.ndarray,
    grad_q: np.ndarray,
    grad_cell: np.ndarray,
    grad_gates: np.ndarray,
) -> None:
    """Gradients: of q [B, d] and of the cell [B, d] → of the gates [B, 4d] and, in place, of the cell before."""
    d, one = slope.shape[1], np.float32(1)
    for b in range(len(slope)):
        i, f, g, o = gates[b, :d], gates[b, d : 2 * d], gates[b, 2 * d : 3 * d], gates[b, 3 * d :]
        to_i, to_f, to_g, to_o = (
            grad_gates[b, :d],
            grad_gates[b, d : 2 * d],
            grad_gates[b, 2 * d : 3 * d],
            grad_gates[b, 3 * d :],
        )
        old, curved, given, carried = before[b % len(before)], slope[b], grad_q[b], grad_cell[b]
        for c in range(d):
            total = carried[c] + given[c] * o[c] * (one - curved[c] * curved[c])
            to_i[c] = total * g[c] * i[c] * (one - i[c])
            to_f[c] = total * old[c] * f[c] * (one - f[c])
            to_g[c] = total * i[c] * (one - g[c] * g[c])
            to_o[c] = given[c] * curved[c] * o[c] * (one - o[c])
            carried[c] = total * f[c]
