"""Weighted sums of rows, compiled: the sums of a row stay in registers while its terms come by."""

from typing import Any

import numpy as np
from llvmlite import ir

from permlab.readouts.compiled import compiled, shared
from permlab.readouts.loops.gemm import lowest, through
from permlab.readouts.loops.vectors import (
    INDEX,
    LANES,
    NUMBER,
    ROW,
    TAIL,
    Row,
    address,
    block,
    choose,
    index,
    loop,
    offset,
    pointer,
    tile,
)


def _bag(indexed: bool, weighted: bool) -> Any:
    """Row b of out, so many of them: bias + Σ_j value_j x[column_j] over j = ptr[b] … ptr[b+1] − 1.

    Columns are j and values 1, unless they are given. The bias is a row, or none (0). As in `gemm.times`, `relu` and
    `gate` make 0 what is negative, or not positive there.
    """

    def body(builder: ir.IRBuilder, row: Row, *given: Any) -> None:
        x, q, ptr, rows, column, value, bias, relu, gate, out = given
        source, result, bounds = pointer(builder, x), pointer(builder, out), pointer(builder, ptr, NUMBER)
        start = row.load_if(builder.icmp_signed("!=", bias, index(0)), pointer(builder, bias))

        def bound(b: Any) -> Any:
            return builder.sext(builder.load(offset(builder, bounds, b)), INDEX)

        def step(b: Any, before: list[Any]) -> list[Any]:
            (begin,), end = before, bound(builder.add(b, index(1)))

            def term(i: Any, sums: list[Any]) -> list[Any]:
                j = builder.add(begin, i)
                place = j
                if indexed:
                    place = builder.sext(builder.load(offset(builder, pointer(builder, column, NUMBER), j)), INDEX)
                terms = row.load(offset(builder, source, place, q))
                if not weighted:
                    return [builder.fadd(*pair) for pair in zip(terms, sums, strict=True)]
                return row.add(builder.load(offset(builder, pointer(builder, value), j)), terms, sums)

            sums = lowest(builder, loop(builder, builder.sub(end, begin), start, term), relu)
            gates = builder.add(gate, builder.mul(builder.mul(b, q), index(4)))
            sums = choose(
                builder,
                builder.icmp_signed("!=", gate, index(0)),
                lambda: through(builder, sums, row.load(pointer(builder, gates))),
                lambda: sums,
            )
            row.store(sums, offset(builder, result, b, q))
            return [end]

        loop(builder, rows, [bound(index(0))], step)

    return tile(body, ROW)


_indexed_weighted, _indexed, _weighted, _plain = (_bag(i, w) for i in (True, False) for w in (True, False))


@compiled
def sum_rows(x: int, q: int, count: int, weights: int, out: int) -> None:
    """Σ_j w_j x_j over so many rows of q floats."""
    first, bounds = 0, np.array([0, count], dtype=np.int32)
    while first < q:
        part = block(first, q, ROW)
        _weighted((x + 4 * first, q, address(bounds), 1, 0, weights, 0, 0, 0, out + 4 * first), part)
        first += LANES * part[1] + TAIL * part[2]
    bounds[0] = first


@shared
def bags(
    x: int, q: int, ptr: int, rows: int, column: int, value: int, bias: int, relu: int, gate: int, out: int
) -> None:
    """out [rows, q] from x [·, q]: see `_bag`. ptr [rows + 1] and column are int32, gate is [rows, q]; 0: none."""
    first = 0
    while first < q:
        part, move = block(first, q, ROW), 4 * first
        start, gates = bias + move if bias else 0, gate + move if gate else 0
        if column and value:
            _indexed_weighted((x + move, q, ptr, rows, column, value, start, relu, gates, out + move), part)
        elif column:
            _indexed((x + move, q, ptr, rows, column, 0, start, relu, gates, out + move), part)
        elif value:
            _weighted((x + move, q, ptr, rows, 0, value, start, relu, gates, out + move), part)
        else:
            _plain((x + move, q, ptr, rows, 0, 0, start, relu, gates, out + move), part)
        first += LANES * part[1] + TAIL * part[2]
