"""Products of rows with rows, and multiples of rows, compiled: rows of a few dozen floats fill a plain loop badly."""

from functools import reduce
from typing import Any

from llvmlite import ir

from permlab.readouts.compiled import compiled
from permlab.readouts.loops.vectors import (
    FLOAT,
    LANES,
    ROW,
    TAIL,
    Row,
    block,
    call,
    index,
    loop,
    offset,
    pointer,
    tile,
)


def _dots(moving: bool) -> Any:
    """out_k = ⟨x_k, y⟩, or ⟨x_k, y_k⟩ if y moves too, for so many rows of x; added to out_k if there is `more`."""

    def body(builder: ir.IRBuilder, row: Row, *numbers: Any) -> None:
        x, d, count, y, out, more = numbers
        left, right, result = (pointer(builder, each) for each in (x, y, out))
        same = [] if moving else row.load(right)

        def step(k: Any, _: list[Any]) -> list[Any]:
            place, total = offset(builder, result, k), ir.Constant(FLOAT, 0.0)
            other = row.load(offset(builder, right, k, d)) if moving else same
            terms = [builder.fmul(*pair) for pair in zip(row.load(offset(builder, left, k, d)), other, strict=True)]
            for kind in dict.fromkeys(value.type for value in terms):  # first those of 16 together, then that of 4
                added = reduce(builder.fadd, (value for value in terms if value.type == kind))
                name = f"llvm.vector.reduce.fadd.v{kind.count}f32"
                total = call(builder, name, FLOAT, (total, added), any_order=True)
            nothing = ir.Constant(FLOAT, 0.0)
            before = builder.select(builder.icmp_signed("!=", more, index(0)), builder.load(place), nothing)
            builder.store(builder.fadd(before, total), place)
            return []

        loop(builder, count, [], step)

    return tile(body, ROW)


def _add_body(builder: ir.IRBuilder, row: Row, *numbers: Any) -> None:
    """out_k + factor_k x_k, in place, for so many rows."""
    x, d, count, factor, out = numbers
    source, factors, result = (pointer(builder, each) for each in (x, factor, out))

    def step(k: Any, _: list[Any]) -> list[Any]:
        place, scale = offset(builder, result, k, d), builder.load(offset(builder, factors, k))
        row.store(row.add(scale, row.load(offset(builder, source, k, d)), row.load(place)), place)
        return []

    loop(builder, count, [], step)


_dot, _dots_of_both, _add = _dots(moving=False), _dots(moving=True), tile(_add_body, ROW)


@compiled
def dots(x: int, d: int, count: int, y: int, out: int) -> None:
    """⟨x_k, y⟩ of so many rows [·, d] with one."""
    first = 0
    while first < d:
        part = block(first, d, ROW)
        _dot((x + 4 * first, d, count, y + 4 * first, out, first), part)
        first += LANES * part[1] + TAIL * part[2]


@compiled
def dots_of_both(x: int, d: int, count: int, y: int, out: int) -> None:
    """⟨x_k, y_k⟩ of so many rows [·, d]."""
    first = 0
    while first < d:
        part = block(first, d, ROW)
        _dots_of_both((x + 4 * first, d, count, y + 4 * first, out, first), part)
        first += LANES * part[1] + TAIL * part[2]


@compiled
def add_multiples(x: int, d: int, count: int, factor: int, out: int) -> None:
    """out_k += factor_k x_k for so many rows [·, d]."""
    first = 0
    while first < d:
        part = block(first, d, ROW)
        _add((x + 4 * first, d, count, factor, out + 4 * first), part)
        first += LANES * part[1] + TAIL * part[2]
