"""Products of float32 matrices, compiled for rows of a few dozen columns, where libraries fill vectors with nothing.

The sums of a tile, a few rows of the result times up to four vectors, stay in registers while their terms come by.
What is left behind the last vector of 16, up to four columns, is made beforehand, as products of rows with columns,
where there are many terms. How an entry is summed depends on the shapes, but not on the number of rows.
"""

from typing import Any

import numpy as np
from llvmlite import ir

from permlab.readouts.compiled import shared
from permlab.readouts.loops.columns import few_columns
from permlab.readouts.loops.vectors import (
    AT_ONCE,
    FLOAT,
    LANES,
    TAIL,
    Row,
    address,
    block,
    choose,
    copy,
    floats,
    index,
    loop,
    offset,
    pointer,
    spread,
    tile,
)

_ROWS = np.array([8, 8, 6, 6, 5])  # of a tile so many vectors of 16 wide; 0: one of 4 alone
_LONG = 24  # terms: from there on the few columns behind others are made by products of rows with columns
_TILES = 40  # whose columns behind the last vector of 16 are made at once, while their rows are in the cache
_COLUMNS = np.array([0, 10, 10, 5, 5])  # of the left matrix, for outer products
_FEW = 16  # rows of the left matrix
_CHUNK = 64  # rows whose outer products are summed before they are added to the others


def _times_tile(rows_of: Any) -> Any:
    """c = a b + bias, or c + a b if there is `more`: a few rows of a and c, a block of b's columns.

    Rows lie a_row, b_row, c_row apart. The bias is a row or none (0). Where `relu` is not 0 (and there is no more),
    what is negative is made 0; where `gate` is not 0, what is not positive there. A vector of 4 behind others is given,
    but for the bias: `side`, its rows side_row apart.
    """

    def body(builder: ir.IRBuilder, row: Row, *numbers: Any) -> None:
        a, a_row, p, b, b_row, bias, c, c_row, relu, gate, more, side, side_row = numbers
        left, right, result, made_before = (pointer(builder, address) for address in (a, b, c, side))
        rows, rest = rows_of(row.shape), builder.icmp_signed("!=", more, index(0))
        summed = row.count - 1 if row.shape[0] and row.shape[1] else row.count  # vectors of a row

        def step(k: Any, sums: list[Any]) -> list[Any]:
            terms = row.load(offset(builder, right, k, b_row))[:summed]
            made = []
            for i in range(rows):
                factor = builder.load(offset(builder, offset(builder, left, a_row, index(i)), k))
                made += row.add(factor, terms, sums[i * summed : (i + 1) * summed])
            return made

        def rows_of_c() -> list[Any]:
            return [value for place in places for value in row.load(place)]

        places = [offset(builder, result, c_row, index(i)) for i in range(rows)]
        start = row.load_if(builder.icmp_signed("!=", bias, index(0)), pointer(builder, bias))
        found, sums = loop(builder, p, start[:summed] * rows, step), []
        for i in range(rows):
            sums += found[i * summed : (i + 1) * summed]
            if summed < row.count:
                sums.append(builder.fadd(start[-1], row.load_last(offset(builder, made_before, side_row, index(i)))))
        sums = choose(
            builder,
            rest,
            lambda: [builder.fadd(*pair) for pair in zip(rows_of_c(), sums, strict=True)],
            lambda: lowest(builder, sums, relu),
        )
        gates = [builder.add(gate, builder.mul(c_row, index(4 * i))) for i in range(rows)]
        sums = choose(
            builder,
            builder.icmp_signed("!=", gate, index(0)),
            lambda: through(builder, sums, [value for each in gates for value in row.load(pointer(builder, each))]),
            lambda: sums,
        )
        row.store_all([sums[i * row.count : (i + 1) * row.count] for i in range(rows)], places)

    return tile(body)


def lowest(builder: ir.IRBuilder, values: list[Any], relu: Any) -> list[Any]:
    """The values, or max(·, 0) where `relu` is not 0; what is no number stays."""
    zero, none = ir.Constant(FLOAT, 0.0), ir.Constant(FLOAT, -np.inf)
    bound = builder.select(builder.icmp_signed("!=", relu, index(0)), zero, none)
    low = [spread(builder, value.type, bound) for value in values]
    less = [builder.fcmp_ordered("<", *pair) for pair in zip(values, low, strict=True)]
    return [builder.select(*each) for each in zip(less, low, values, strict=True)]


def through(builder: ir.IRBuilder, values: list[Any], gates: list[Any]) -> list[Any]:
    """The values where the gates are positive, or no numbers; 0 elsewhere."""
    none = [ir.Constant(value.type, [0.0] * value.type.count) for value in values]
    opens = [builder.fcmp_unordered(">", gate, zero) for gate, zero in zip(gates, none, strict=True)]
    return [builder.select(*each) for each in zip(opens, values, none, strict=True)]


def _outer_tile(columns_of: Any) -> Any:
    """c = aᵀ g, or c + aᵀ g if there is `more`, over n rows of a [·, p] and g [·, q]: a few columns of a."""

    def body(builder: ir.IRBuilder, row: Row, *numbers: Any) -> None:
        a, p, g, q, n, c, c_row, more = numbers
        left, right, result = (pointer(builder, address) for address in (a, g, c))
        columns, rest = columns_of(row.count), builder.icmp_signed("!=", more, index(0))

        def step(k: Any, sums: list[Any]) -> list[Any]:
            terms = row.load(offset(builder, right, k, q))
            made = []
            for i in range(columns):
                factor = builder.load(offset(builder, offset(builder, left, k, p), index(i)))
                made += row.add(factor, terms, sums[i * row.count : (i + 1) * row.count])
            return made

        sums = loop(builder, n, row.zeros() * columns, step)
        for i in range(columns):
            place = offset(builder, result, c_row, index(i))
            added = zip(row.load_if(rest, place), sums[i * row.count : (i + 1) * row.count], strict=True)
            row.store([builder.fadd(*pair) for pair in added], place)

    return tile(body)


_times_rows, _times_row = _times_tile(lambda shape: int(_ROWS[shape[0]])), _times_tile(lambda shape: 1)
_outer_columns, _outer_column = _outer_tile(lambda count: int(_COLUMNS[count])), _outer_tile(lambda count: 1)


@shared
def times(
    a: int,
    a_row: int,
    n: int,
    p: int,
    b: int,
    b_row: int,
    b_column: int,
    bias: int,
    q: int,
    relu: int,
    gate: int,
    more: int,
    c: int,
    c_row: int,
) -> None:
    """c = a b + bias: a [n, p], b [p, q], bias [q] or none (0), c [n, q]; see `_times_tile`.

    Blocks of b are copied, so that they lie close together, unless they are read a few times only.
    """
    direct = b_column == 1 and n <= _FEW
    panel = np.empty(0 if direct else p * AT_ONCE * LANES, dtype=np.float32)
    source, first = floats(b, (p - 1) * b_row + (q - 1) * b_column + 1), 0
    while first < q:
        part = block(first, q, AT_ONCE)
        if part[1] and part[2] and p < _LONG:
            part = (first, part[1], 0, LANES)  # the few columns behind it go alone
        width, right, right_row = LANES * part[1] + TAIL * part[2], b + 4 * first, b_row
        if not direct:
            count = min(width, q - first)
            for k in range(p):
                row, begin = panel[width * k : width * k + count], k * b_row + first * b_column
                if b_column == 1:
                    copy(source[begin : begin + count], row)
                else:
                    for j in range(count):
                        row[j] = source[begin + j * b_column]
            right, right_row = address(panel), width
        beside, rows = part[3] if part[1] and part[2] else 0, _ROWS[part[1]]
        at_once, room = (rows * _TILES, 2 if beside < 3 else 4) if beside else (n, 0)
        columns = np.zeros((room, p), dtype=np.float32)
        for j in range(beside):
            for k in range(p):
                columns[j, k] = source[k * b_row + (first + LANES * part[1] + j) * b_column]
        side, below = np.empty(room * at_once, dtype=np.float32), bias + 4 * first if bias else 0
        for start in range(0, n, max(at_once, 1)):
            stop = min(start + at_once, n)
            if beside:
                left, to = a + 4 * start * a_row, address(side)
                few_columns(left, a_row, stop - start, p, address(columns), p, room, to)
            i = start
            while i < stop:
                left, to = a + 4 * i * a_row, 4 * (i * c_row + first)
                gates, tail = gate + to if gate else 0, address(side) + 4 * (i - start) * room
                numbers = (left, a_row, p, right, right_row, below, c + to, c_row, relu, gates, more, tail, room)
                if i + rows <= stop:
                    _times_rows(numbers, part)
                    i += rows
                else:
                    _times_row(numbers, part)
                    i += 1
        side[:1], columns[:1] = 0, 0  # they are there until now
        first += width


@shared
def outer(a: int, n: int, p: int, g: int, q: int, c: int, c_row: int) -> None:
    """c = aᵀ g: a [n, p], g [n, q], c [p, q] with rows c_row apart.

    A few columns at the end of g, which would fill a vector badly, take the part of a: (gᵀ a)ᵀ.
    """
    for i in range(p if n == 0 else 0):
        floats(c + 4 * i * c_row, q)[:] = 0
    turned = q % LANES if q > LANES and q % LANES <= TAIL and p >= LANES else 0
    width, side = q - turned, np.empty(turned * p, dtype=np.float32)
    for start in range(0, n, _CHUNK):
        left, right, count = a + 4 * start * p, g + 4 * start * q, min(_CHUNK, n - start)
        first = 0
        while first < width:
            part = block(first, width, AT_ONCE)
            columns = _COLUMNS[part[1] + part[2]]
            whole = p // columns * columns
            for i in range(0, whole, columns):
                to = c + 4 * (i * c_row + first)
                _outer_columns((left + 4 * i, p, right + 4 * first, q, count, to, c_row, start), part)
            for i in range(whole, p):
                to = c + 4 * (i * c_row + first)
                _outer_column((left + 4 * i, p, right + 4 * first, q, count, to, c_row, start), part)
            first += LANES * part[1] + TAIL * part[2]
        for j in range(turned):
            first = 0
            while first < p:
                part, to = block(first, p, AT_ONCE), address(side) + 4 * (j * p + first)
                _outer_column((right + 4 * (width + j), q, left + 4 * first, p, count, to, p, start), part)
                first += LANES * part[1] + TAIL * part[2]
    for i in range(p if turned and n else 0):
        row = floats(c + 4 * (i * c_row + width), turned)
        for j in range(turned):
            row[j] = side[j * p + i]
