"""The segmented sort, compiled: every column of every graph, eight columns at a time.

A value and its row are one 64-bit key, (bits that descend as the float ascends | row in the graph): no two keys are
equal, and ties keep the order of their rows. Eight keys of a row are one vector. A sorting network compares whole rows,
so that no branch depends on the data: Batcher's merge exchange (Knuth, The Art of Computer Programming 3, algorithm
5.2.2M), m log² m for m rows. Graphs of more than GIANT rows are sorted by radix, column by column, in time proportional
to m.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from permlab.tasks.engine.compiled import compiled
from permlab.tasks.engine.merge import sort_few_columns

LANES = 8  # keys per vector
GIANT = 1024  # rows
FEW = 2  # columns, sorted one after the other
_DIGIT = 11  # bits; three digits are a float

_inline: Any = intrinsic  # removes the first argument
_FLOATS, _KEYS = (ir.VectorType(ir.IntType(bits), LANES) for bits in (32, 64))
_NUMBERS = ir.VectorType(ir.FloatType(), LANES)


def _all(kind: ir.VectorType, value: int) -> ir.Constant:
    return ir.Constant(kind, [value] * LANES)


def _vector(context: Any, builder: ir.IRBuilder, kind: Any, array: Any, offset: Any, vector: ir.VectorType) -> Any:
    """Where eight entries of a flat array begin."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())


def _turned(builder: ir.IRBuilder, bits: Any) -> Any:
    """IEEE 754 floats compare as signed integers, once the lower bits of the negative ones are flipped; its inverse."""
    negative = builder.ashr(bits, _all(_FLOATS, 31))
    return builder.xor(bits, builder.and_(negative, _all(_FLOATS, 2**31 - 1)))


@_inline
def _pack(_: Any, bits: Any, at: Any, keys: Any, to: Any, row: Any) -> Any:
    """Eight values of a row as keys."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        kinds = signature.args
        value = builder.load(_vector(context, builder, kinds[0], args[0], args[1], _FLOATS), align=4)
        number = builder.fadd(builder.bitcast(value, _NUMBERS), ir.Constant(_NUMBERS, [0.0] * LANES))  # −0 becomes 0
        value = builder.bitcast(number, _FLOATS)
        descending = builder.sext(builder.not_(_turned(builder, value)), _KEYS)
        rows = ir.Constant(_KEYS, ir.Undefined)
        for lane in range(LANES):
            rows = builder.insert_element(rows, args[4], ir.Constant(ir.IntType(32), lane))
        key = builder.or_(builder.shl(descending, _all(_KEYS, 32)), rows)
        builder.store(key, _vector(context, builder, kinds[2], args[2], args[3], _KEYS), align=8)
        return context.get_dummy_value()

    return types.void(bits, types.intp, keys, types.intp, types.intp), generate


@_inline
def _exchange(_: Any, keys: Any, upper: Any, lower: Any) -> Any:
    """Compare-exchange of two rows of keys: the lesser keys go into the upper row."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        rows = [_vector(context, builder, signature.args[0], args[0], offset, _KEYS) for offset in args[1:]]
        a, b = (builder.load(row, align=8) for row in rows)
        less = builder.icmp_signed("<", a, b)
        builder.store(builder.select(less, a, b), rows[0], align=8)
        builder.store(builder.select(less, b, a), rows[1], align=8)
        return context.get_dummy_value()

    return types.void(keys, types.intp, types.intp), generate


@_inline
def _unpack(_: Any, keys: Any, at: Any, bits: Any, rows: Any, to: Any, start: Any) -> Any:
    """Eight keys as their values and rows, those counted from `start`."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        kinds = signature.args
        key = builder.load(_vector(context, builder, kinds[0], args[0], args[1], _KEYS), align=8)
        value = _turned(builder, builder.not_(builder.trunc(builder.ashr(key, _all(_KEYS, 32)), _FLOATS)))
        first = ir.Constant(_FLOATS, ir.Undefined)
        for lane in range(LANES):
            start = builder.trunc(args[5], ir.IntType(32))
            first = builder.insert_element(first, start, ir.Constant(ir.IntType(32), lane))
        row = builder.add(builder.trunc(key, _FLOATS), first)
        builder.store(value, _vector(context, builder, kinds[2], args[2], args[4], _FLOATS), align=4)
        builder.store(row, _vector(context, builder, kinds[3], args[3], args[4], _FLOATS), align=4)
        return context.get_dummy_value()

    return types.void(keys, types.intp, bits, rows, types.intp, types.intp), generate


@compiled
def _merge_exchange(keys: np.ndarray, m: int) -> None:
    """Sorts m rows of eight keys, each column ascending."""
    top = 1
    while top < m:
        top *= 2
    p = top // 2
    while p > 0:
        q, r, gap = top // 2, 0, p
        while True:
            for first in range(r, m - gap, 2 * p):
                for row in range(first, min(first + p, m - gap)):
                    _exchange(keys, LANES * row, LANES * (row + gap))
            if q == p:
                break
            gap, q, r = q - p, q // 2, p
        p //= 2


@compiled
def _radix(keys: np.ndarray, lane: int, m: int, a: np.ndarray, b: np.ndarray) -> None:
    """Sorts m keys of one column, ascending: by 11 bits of the value at a time, stable."""
    for row in range(m):
        a[row] = keys[LANES * row + lane]
    for digit in range(3):
        shift = 32 + _DIGIT * digit
        sign = 2 ** (_DIGIT - 1) if digit == 2 else 0  # negative ones come first
        count = np.zeros(2**_DIGIT + 1, dtype=np.int64)
        for row in range(m):
            count[1 + (((a[row] >> shift) & (2**_DIGIT - 1)) ^ sign)] += 1
        for place in range(2**_DIGIT):
            count[place + 1] += count[place]
        for row in range(m):
            place = ((a[row] >> shift) & (2**_DIGIT - 1)) ^ sign
            b[count[place]] = a[row]
            count[place] += 1
        a, b = b, a
    for row in range(m):
        keys[LANES * row + lane] = a[row]


@compiled
def _sort(bits: np.ndarray, ptr: np.ndarray, k: int, lanes: int, out: np.ndarray, rows: np.ndarray) -> None:
    """Flat arrays of n rows of k ≥ 8; only the first `lanes` of every eight columns count."""
    largest = 0
    for graph in range(len(ptr) - 1):
        largest = max(largest, ptr[graph + 1] - ptr[graph])
    keys = np.zeros(largest * LANES, dtype=np.int64)
    spare = np.empty((2, largest if largest > GIANT else 0), dtype=np.int64)
    for graph in range(len(ptr) - 1):
        start, m = ptr[graph], ptr[graph + 1] - ptr[graph]
        for first in range(0, k, LANES):
            column = min(first, k - LANES)  # the last eight may overlap columns that are sorted already
            for row in range(m):
                _pack(bits, k * (start + row) + column, keys, LANES * row, row)
            if m <= GIANT:
                _merge_exchange(keys, m)
            else:
                for lane in range(lanes):
                    _radix(keys, lane, m, spare[0], spare[1])
            for row in range(m):
                _unpack(keys, LANES * row, out, rows, k * (start + row) + column, start)


@compiled
def largest_graph(ptr: np.ndarray, n: int) -> int:
    """The number of rows of the largest graph; the loops trust ptr, so it is checked here."""
    if len(ptr) == 0 or ptr[0] != 0 or ptr[-1] != n or n >= 2**31:
        raise IndexError("ptr must ascend from 0 to the number of rows, less than 2**31")
    largest = 0
    for b in range(len(ptr) - 1):
        if ptr[b + 1] < ptr[b]:
            raise IndexError("ptr must ascend from 0 to the number of rows, less than 2**31")
        largest = max(largest, ptr[b + 1] - ptr[b])
    return largest


def sort_descending(x: np.ndarray, ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x [n, k], ptr [B + 1] → each column descending within every graph, and the rows it took, int32; both [n, k].

    float64 is sorted as float32 first, which makes some values tie, but never reverses an order.
    """
    n, k = x.shape
    largest = largest_graph(ptr, n)
    if x.dtype == np.float64:
        with np.errstate(over="ignore"):
            rounded = x.astype(np.float32)
        return _sorted_exactly(np.ascontiguousarray(x), sort_descending(rounded, ptr)[1], ptr)
    wide = np.ascontiguousarray(x)
    if k <= FEW and largest <= GIANT:  # most of the eight lanes would be empty
        ordered: tuple[np.ndarray, np.ndarray] = sort_few_columns(wide, ptr)
        return ordered
    if k < LANES:
        wide = np.zeros((n, LANES), dtype=np.float32)
        wide[:, :k] = x
    out, rows = np.empty(wide.shape, dtype=np.float32), np.empty(wide.shape, dtype=np.int32)
    flat = (array.view(np.int32).reshape(-1) for array in (wide, out, rows))
    _sort(next(flat), ptr, wide.shape[1], min(k, LANES), *flat)
    return np.ascontiguousarray(out[:, :k]), np.ascontiguousarray(rows[:, :k])


@compiled
def _sorted_exactly(x: np.ndarray, rows: np.ndarray, ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The columns of x in these orders; insertion sort corrects the values that tie in float32."""
    out = np.empty_like(x)
    for b in range(len(ptr) - 1):
        for i in range(ptr[b], ptr[b + 1]):
            for c in range(x.shape[1]):
                row = rows[i, c]
                value, place = x[row, c] + 0.0, i  # −0 becomes 0
                while place > ptr[b] and (
                    out[place - 1, c] < value or (out[place - 1, c] == value and rows[place - 1, c] > row)
                ):
                    out[place, c], rows[place, c] = out[place - 1, c], rows[place - 1, c]
                    place -= 1
                out[place, c], rows[place, c] = value, row
    return out, rows


@compiled
def put_back(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The inverse of `sort_descending`: values [n, k], rows [n, k] → [n, k]. A row that does not exist raises
    IndexError.
    """
    n, out, places = len(values), np.empty_like(values), rows.view(np.uint32)  # in which −1 is too large as well
    for i in range(n):
        for c in range(values.shape[1]):
            row = places[i, c]
            if row >= n:
                raise IndexError("rows outside of the values")
            out[row, c] = values[i, c]
    return out
