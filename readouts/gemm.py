"""Products of float32 matrices, compiled for rows of a few dozen columns, where libraries fill vectors with nothing.

The sums of a tile, a few rows of the result times up to four vectors, stay in registers while their terms come by. An
entry is summed in the order of its terms, whatever the other rows are.
"""

from typing import Any

import numpy as np
from llvmlite import ir

from permlab.readouts.compiled import compiled
from permlab.readouts.vectors import AT_ONCE, FLOAT, LANES, TAIL, Row, block, floats, index, loop, offset, pointer, spread, tile

_ROWS = np.array([[0, 8], [8, 6], [6, 6], [6, 4], [5, 0]])  # of a tile so many vectors of 16 wide, and none or one of 4
_COLUMNS = np.array([0, 10, 10, 5, 5])  # of the left matrix, for outer products
_CHUNK = 64  # rows whose outer products are summed before they are added to the others


def _times_tile(rows_of: Any) -> Any:
    """c = a b + bias: rows of a [·, p], c [·, q]; b is a panel, its bias behind it.

    Where `relu` is not 0, what is negative is made 0; where `gate` is not 0, what is not positive there.
    """

    def body(builder: ir.IRBuilder, row: Row, *numbers: Any) -> None:
        a, p, b, c, q, relu, gate = numbers
        left, panel, result = (pointer(builder, address) for address in (a, b, c))
        rows = rows_of(row.shape)

        def step(k: Any, sums: list[Any]) -> list[Any]:
            right = row.load(offset(builder, panel, k, row.width), masked=False)
            made = []
            for i in range(rows):
                factor = builder.load(offset(builder, offset(builder, left, p, index(i)), k))
                made += row.add(factor, right, sums[i * row.count : (i + 1) * row.count])
            return made

        bias = row.load(offset(builder, panel, p, row.width), masked=False)
        sums = loop(builder, p, bias * rows, step)
        for i in range(rows):
            values = lowest(builder, sums[i * row.count : (i + 1) * row.count], relu)
            place = builder.mul(q, index(i))
            with builder.if_else(builder.icmp_signed("!=", gate, index(0))) as (gated, open_):
                with gated:
                    gates = row.load(offset(builder, pointer(builder, gate), place))
                    row.store(through(builder, values, gates), offset(builder, result, place))
                with open_:
                    row.store(values, offset(builder, result, place))

    return tile(body)


def lowest(builder: ir.IRBuilder, values: list[Any], relu: Any) -> list[Any]:
    """The values, or max(·, 0) where `relu` is not 0; what is no number stays."""
    zero, none = ir.Constant(FLOAT, 0.0), ir.Constant(FLOAT, -np.inf)
    bound = builder.select(builder.icmp_signed("!=", relu, index(0)), zero, none)
    low = [spread(builder, value.type, bound) for value in values]
    less = [builder.fcmp_ordered("<", *pair) for pair in zip(values, low, strict=True)]
    return [builder.select(*each) for each in zip(less, low, values, strict=True)]


def through(builder: ir.IRBuilder, values: list[Any], gates: list[Any]) -> list[Any]:
    """The values where the gates are positive, 0 elsewhere."""
    none = [ir.Constant(value.type, [0.0] * value.type.count) for value in values]
    opens = [builder.fcmp_ordered(">", gate, zero) for gate, zero in zip(gates, none, strict=True)]
    return [builder.select(*each) for each in zip(opens, values, none, strict=True)]


def _outer_tile(columns_of: Any) -> Any:
    """c += aᵀ g over n rows of a [·, p] and g [·, q]: a few columns of a."""

    def body(builder: ir.IRBuilder, row: Row, *numbers: Any) -> None:
        a, p, g, q, n, c = numbers
        left, right, result = (pointer(builder, address) for address in (a, g, c))
        columns = columns_of(row.count)

        def step(k: Any, sums: list[Any]) -> list[Any]:
            values = row.load(offset(builder, right, k, q))
            made = []
            for i in range(columns):
                factor = builder.load(offset(builder, offset(builder, left, k, p), index(i)))
                made += row.add(factor, values, sums[i * row.count : (i + 1) * row.count])
            return made

        sums = loop(builder, n, row.zeros() * columns, step)
        for i in range(columns):
            place = offset(builder, result, q, index(i))
            added = zip(row.load(place), sums[i * row.count : (i + 1) * row.count], strict=True)
            row.store([builder.fadd(*pair) for pair in added], place)

    return tile(body)


_times_rows, _times_row = _times_tile(lambda shape: int(_ROWS[shape])), _times_tile(lambda shape: 1)
_outer_columns, _outer_column = _outer_tile(lambda count: int(_COLUMNS[count])), _outer_tile(lambda count: 1)


@compiled
def times(
    a: int, n: int, p: int, b: int, b_row: int, b_column: int, bias: int, q: int, relu: int, gate: int, c: int
) -> None:
    """c = a b + bias: a [n, p], b [p, q] with these strides, bias [q] or none (0), c [n, q]; see `_times_tile`."""
    panel = np.zeros((p + 1) * 4 * LANES, dtype=np.float32)
    source, below = floats(b, (p - 1) * b_row + (q - 1) * b_column + 1), floats(bias, q if bias else 0)
    first = 0
    while first < q:
        part = block(first, q, AT_ONCE)
        width = LANES * part[1] + TAIL * part[2]
        count = min(width, q - first)
        for k in range(p):
            for j in range(count):
                panel[width * k + j] = source[k * b_row + (first + j) * b_column]
        panel[width * p : width * (p + 1)] = 0
        for j in range(count if bias else 0):
            panel[width * p + j] = below[first + j]
        rows = _ROWS[part[1], part[2]]
        for start in range(0, n, rows):
            i = min(start, n - rows)  # the last tile may do some rows again
            if n >= rows:
                gates = gate + 4 * (i * q + first) if gate else 0
                _times_rows((a + 4 * i * p, p, panel.ctypes.data, c + 4 * (i * q + first), q, relu, gates), part)
        for i in range(n if n < rows else 0):
            gates = gate + 4 * (i * q + first) if gate else 0
            _times_row((a + 4 * i * p, p, panel.ctypes.data, c + 4 * (i * q + first), q, relu, gates), part)
        first += width


@compiled
def outer(a: int, n: int, p: int, g: int, q: int, c: int) -> None:
    """c = aᵀ g: a [n, p], g [n, q], c [p, q]."""
    floats(c, p * q)[:] = 0
    for start in range(0, n, _CHUNK):
        left, right, count = a + 4 * start * p, g + 4 * start * q, min(_CHUNK, n - start)
        first = 0
        while first < q:
            part = block(first, q, AT_ONCE)
            columns = _COLUMNS[part[1] + part[2]]
            whole = p // columns * columns
            for i in range(0, whole, columns):
                _outer_columns((left + 4 * i, p, right + 4 * first, q, count, c + 4 * (i * q + first)), part)
            for i in range(whole, p):
                _outer_column((left + 4 * i, p, right + 4 * first, q, count, c + 4 * (i * q + first)), part)
            first += LANES * part[1] + TAIL * part[2]
