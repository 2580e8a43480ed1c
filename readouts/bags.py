"""Weighted sums of rows, compiled: the sums of a row stay in registers while its terms come by."""

from typing import Any

from llvmlite import ir

from permlab.readouts.compiled import compiled
from permlab.readouts.gemm import lowest, through
from permlab.readouts.vectors import (
    LANES,
    NUMBER,
    ROW,
    TAIL,
    Row,
    block,
    choose,
    index,
    loop,
    numbers,
    offset,
    pointer,
    tile,
)


def _bag(indexed: bool, weighted: bool) -> Any:
    """out = bias + Σ_j value_j x[column_j] over so many j; columns are 0, 1, … and values 1, unless they are given.

    The bias is a row, or none (0). As in `gemm.times`, `relu` and `gate` make 0 what is negative, or not positive there.
    """

    def body(builder: ir.IRBuilder, row: Row, *given: Any) -> None:
        x, q, column, value, count, bias, relu, gate, out = given
        rows, result = pointer(builder, x), pointer(builder, out)

        def step(j: Any, sums: list[Any]) -> list[Any]:
            place = j
            if indexed:
                place = builder.sext(builder.load(offset(builder, pointer(builder, column, NUMBER), j)), j.type)
            terms = row.load(offset(builder, rows, place, q))
            if not weighted:
                return [builder.fadd(*pair) for pair in zip(terms, sums, strict=True)]
            return row.add(builder.load(offset(builder, pointer(builder, value), j)), terms, sums)

        start = row.load_if(builder.icmp_signed("!=", bias, index(0)), pointer(builder, bias))
        sums = lowest(builder, loop(builder, count, start, step), relu)
        sums = choose(
            builder,
            builder.icmp_signed("!=", gate, index(0)),
            lambda: through(builder, sums, row.load(pointer(builder, gate))),
            lambda: sums,
        )
        row.store(sums, result)

    return tile(body, ROW)


_indexed_weighted, _indexed, _weighted, _plain = (_bag(i, w) for i in (True, False) for w in (True, False))


@compiled
def sum_rows(x: int, q: int, count: int, weights: int, out: int) -> None:
    """Σ_j w_j x_j over so many rows of q floats."""
    first = 0
    while first < q:
        part = block(first, q, ROW)
        _weighted((x + 4 * first, q, 0, weights, count, 0, 0, 0, out + 4 * first), part)
        first += LANES * part[1] + TAIL * part[2]


@compiled
def bags(
    x: int, q: int, ptr: int, count: int, column: int, value: int, bias: int, relu: int, gate: int, out: int
) -> None:
    """Row b of out [count, q]: bias + Σ_j value_j x[column_j] over j = ptr[b] … ptr[b+1] − 1.

    x [·, q], ptr [count + 1] and column int32, gate [count, q]; of what is 0 see `_bag`.
    """
    bounds = numbers(ptr, count + 1)
    first = 0
    while first < q:
        part = block(first, q, ROW)
        rows, start = x + 4 * first, bias + 4 * first if bias else 0
        for b in range(count):
            j, terms, to = bounds[b], bounds[b + 1] - bounds[b], 4 * (b * q + first)
            gates = gate + to if gate else 0
            if column and value:
                _indexed_weighted((rows, q, column + 4 * j, value + 4 * j, terms, start, relu, gates, out + to), part)
            elif column:
                _indexed((rows, q, column + 4 * j, 0, terms, start, relu, gates, out + to), part)
            elif value:
                _weighted((rows + 4 * j * q, q, 0, value + 4 * j, terms, start, relu, gates, out + to), part)
            else:
                _plain((rows + 4 * j * q, q, 0, 0, terms, start, relu, gates, out + to), part)
        first += LANES * part[1] + TAIL * part[2]
