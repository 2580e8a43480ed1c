"""Products of rows with rows, compiled: along their terms, sixteen at a time, for results that would fill no vector."""

from typing import Any

from llvmlite import ir
from numba import types

from permlab.readouts.compiled import compiled
from permlab.readouts.loops.vectors import (
    FLOAT,
    LANES,
    NUMBER,
    Row,
    fma,
    index,
    inline,
    loop,
    offset,
    pointer,
)


def _every_four(lanes: list[int]) -> list[int]:
    return [4 * group + lane for group in range(4) for lane in lanes]


def _fours(groups: list[int]) -> list[int]:
    return [4 * group + lane for group in groups for lane in range(4)]


# Lanes of two vectors that are added, by shuffles that the machine has: sixteen vectors become their sums, in order.
_ROUNDS = [
    (_every_four([0, 16, 1, 17]), _every_four([2, 18, 3, 19])),
    (_every_four([0, 1, 16, 17]), _every_four([2, 3, 18, 19])),
    (_fours([0, 2, 4, 6]), _fours([1, 3, 5, 7])),
    (_fours([0, 2, 4, 6]), _fours([1, 3, 5, 7])),
]


def _products(columns: int) -> Any:
    """⟨a_i, b_j⟩ of 16/columns rows of a and so many rows of b, p terms each: 16 sums.

    Sixteen vectors of partial sums become one of sums by four rounds of adding halves. Of a only `valid` rows are
    there: the last one stands for what is missing, and is not stored again.
    """
    vector, rows = ir.VectorType(FLOAT, LANES), LANES // columns

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        a, a_row, valid, p, b, b_row, out = (builder.extract_value(args[0], place) for place in range(7))
        last = builder.sub(valid, index(1))
        numbers = [builder.select(builder.icmp_signed("<", index(i), last), index(i), last) for i in range(rows)]
        left = [offset(builder, pointer(builder, a), number, a_row) for number in numbers]
        right = [offset(builder, pointer(builder, b), index(j), b_row) for j in range(columns)]
        whole = builder.sdiv(builder.sub(p, index(1)), index(LANES))
        rest = builder.mul(whole, index(LANES))
        end = Row(builder, (1, 0), builder.sub(p, rest))  # the last vector is masked

        def add(load: Any, place: Any, sums: list[Any]) -> list[Any]:
            xs, ys = ([load(offset(builder, each, place)) for each in side] for side in (left, right))
            pairs = [(x, y) for x in xs for y in ys]
            return [fma(builder, x, y, total) for (x, y), total in zip(pairs, sums, strict=True)]

        def step(k: Any, sums: list[Any]) -> list[Any]:
            place = builder.mul(k, index(LANES))
            return add(lambda start: builder.load(builder.bitcast(start, vector.as_pointer()), align=4), place, sums)

        sums = loop(builder, whole, [ir.Constant(vector, [0.0] * LANES)] * LANES, step)
        sums = add(end.load_last, rest, sums)
        for low, high in _ROUNDS:
            halves = zip(sums[::2], sums[1::2], strict=True)
            sums = [builder.fadd(_mixed(builder, a, b, low), _mixed(builder, a, b, high)) for a, b in halves]
        with builder.if_else(builder.icmp_signed("<", valid, index(rows))) as (some, all_of_them):
            with some:
                Row(builder, (1, 0), builder.mul(valid, index(columns))).store(sums, pointer(builder, out))
            with all_of_them:  # to store with a mask takes long
                builder.store(sums[0], builder.bitcast(pointer(builder, out), vector.as_pointer()), align=4)
        return context.get_dummy_value()

    @inline
    def code(_: Any, numbers: Any) -> Any:
        return types.void(numbers), generate

    return code


def _mixed(builder: ir.IRBuilder, a: Any, b: Any, lanes: list[int]) -> Any:
    """These lanes of a and, from 16 on, of b."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(NUMBER, LANES), lanes))


_with_two, _with_four = _products(2), _products(4)


@compiled
def few_columns(a: int, a_row: int, n: int, p: int, b: int, b_row: int, count: int, out: int) -> None:
    """⟨a_i, b_j⟩ of rows with p terms, a [n, ·], b [count, ·] → [n, count], count being 2 or 4."""
    rows = LANES // count
    for i in range(0, n, rows):
        given = (a + 4 * i * a_row, a_row, min(rows, n - i), p, b, b_row, out + 4 * i * count)
        if count == 2:
            _with_two(given)
        else:
            _with_four(given)
