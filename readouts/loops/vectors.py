"""Vectors of floats as machine instructions: what the compiled products are made of.

A row of q floats is vectors of 16, and one of 4 behind them where 4 floats or fewer are left: 50 are 16 + 16 + 16 + 4.
Memory is given as addresses: to wrap every tensor as an array took longer than many a product.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import carray, types
from numba.extending import intrinsic

from permlab.readouts.compiled import compiled

AVAILABLE = bool(binding.get_host_cpu_features().get("avx512f"))  # 32 registers of 16 floats
LANES, TAIL = 16, 4
AT_ONCE = 4  # vectors of a row in a tile of several rows: the sums, and what they are made of, fit into the registers
ROW = 8  # vectors of a row that stands alone
FLOAT, INDEX, NUMBER = ir.FloatType(), ir.IntType(64), ir.IntType(32)

inline: Any = intrinsic  # takes away the first argument


class Row:
    """How a block of a row is made of vectors, as code: so many of 16, and one of 4 or none."""

    def __init__(self, builder: ir.IRBuilder, shape: tuple[int, int], valid: Any) -> None:
        self.builder, self.shape, self.count, self.valid = builder, shape, sum(shape), valid
        self.kinds = [ir.VectorType(FLOAT, lanes) for lanes in [LANES] * shape[0] + [TAIL] * shape[1]]
        last = self.kinds[-1]
        numbers = ir.VectorType(INDEX, last.count)
        lanes = ir.Constant(numbers, list(range(last.count)))
        self.mask = builder.icmp_signed("<", lanes, spread(builder, numbers, valid))

    def load(self, row: Any) -> list[Any]:
        """The vectors that begin at `row`; zeros in the lanes that do not count."""
        whole = [self.builder.load(self._place(row, i), align=4) for i in range(self.count - 1)]
        return [*whole, self.load_last(self._place(row, self.count - 1))]

    def load_last(self, place: Any) -> Any:
        """The last vector, which begins at this place."""
        kind = self.kinds[-1]
        start = self.builder.bitcast(place, kind.as_pointer())
        arguments = (start, ir.Constant(NUMBER, 4), self.mask, ir.Constant(kind, [0.0] * kind.count))
        return call(self.builder, f"llvm.masked.load.v{kind.count}f32.p0", kind, arguments)

    def load_if(self, there: Any, row: Any) -> list[Any]:
        """`load` where there is something, else zeros."""
        return choose(self.builder, there, lambda: self.load(row), self.zeros)

    def store(self, values: Sequence[Any], row: Any) -> None:
        """The vectors to where they begin, but for the lanes that do not count."""
        self.store_all([values], [row])

    def store_all(self, rows: Sequence[Sequence[Any]], places: Sequence[Any]) -> None:
        """Several such rows. A store with a mask takes long: it is for what is neither a whole vector nor two lanes."""
        kind, builder = self.kinds[-1], self.builder
        for values, place in zip(rows, places, strict=True):
            for i, value in enumerate(values[:-1]):
                builder.store(value, self._place(place, i), align=4)
        ends = [(values[-1], self._place(place, self.count - 1)) for values, place in zip(rows, places, strict=True)]
        after, masked = builder.append_basic_block("stored"), builder.append_basic_block("masked")
        switch = builder.switch(self.valid, masked)
        for lanes in (kind.count, 2):
            case = builder.append_basic_block("lanes")
            switch.add_case(index(lanes), case)
            builder.position_at_end(case)
            for value, end in ends:
                builder.store(part(builder, value, lanes), bitcast(builder, end, lanes), align=4)
            builder.branch(after)
        builder.position_at_end(masked)
        for value, end in ends:
            arguments = (value, end, ir.Constant(NUMBER, 4), self.mask)
            call(builder, f"llvm.masked.store.v{kind.count}f32.p0", ir.VoidType(), arguments)
        builder.branch(after)
        builder.position_at_end(after)

    def zeros(self) -> list[Any]:
        return [ir.Constant(kind, [0.0] * kind.count) for kind in self.kinds]

    def add(self, factor: Any, values: Sequence[Any], sums: Sequence[Any]) -> list[Any]:
        """factor · values + sums, rounded once."""
        pairs = zip(values, sums, strict=True)
        return [fma(self.builder, spread(self.builder, v.type, factor), v, total) for v, total in pairs]

    def _place(self, row: Any, number: int) -> Any:
        return self.builder.bitcast(offset(self.builder, row, index(LANES * number)), self.kinds[number].as_pointer())


def part(builder: ir.IRBuilder, vector: Any, lanes: int) -> Any:
    """Its first lanes."""
    chosen = ir.Constant(ir.VectorType(NUMBER, lanes), list(range(lanes)))
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), chosen)


def bitcast(builder: ir.IRBuilder, place: Any, lanes: int) -> Any:
    """A pointer to a vector."""
    return builder.bitcast(place, ir.VectorType(FLOAT, lanes).as_pointer())


def index(value: int) -> ir.Constant:
    return ir.Constant(INDEX, value)


def pointer(builder: ir.IRBuilder, address: Any, kind: Any = FLOAT) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def offset(builder: ir.IRBuilder, start: Any, *factors: Any) -> Any:
    """A pointer, moved on by the product of these numbers."""
    product = factors[0]
    for factor in factors[1:]:
        product = builder.mul(product, factor)
    return builder.gep(start, [product])


def spread(builder: ir.IRBuilder, kind: ir.VectorType, scalar: Any) -> Any:
    """A scalar in every lane."""
    nothing = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(nothing, scalar, ir.Constant(NUMBER, 0))
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(NUMBER, kind.count), [0] * kind.count))


def call(builder: ir.IRBuilder, name: str, result: Any, arguments: Sequence[Any], any_order: bool = False) -> Any:
    """One of LLVM's own functions; `any_order` is for sums."""
    declared = builder.module.globals.get(name)
    if declared is None:
        declared = ir.Function(builder.module, ir.FunctionType(result, [each.type for each in arguments]), name)
    return builder.call(declared, arguments, fastmath=("reassoc",) if any_order else ())


def fma(builder: ir.IRBuilder, a: Any, b: Any, c: Any) -> Any:
    """a b + c, rounded once."""
    return call(builder, f"llvm.fma.v{a.type.count}f32", a.type, (a, b, c))


def loop(builder: ir.IRBuilder, count: Any, start: list[Any], body: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
    """What becomes of `start` by body(0, ·), body(1, ·), …, body(count − 1, ·)."""
    before = builder.block
    inside, after = builder.append_basic_block("inside"), builder.append_basic_block("after")
    builder.cbranch(builder.icmp_signed(">", count, index(0)), inside, after)
    builder.position_at_end(inside)
    step = builder.phi(INDEX)
    carried = [builder.phi(value.type) for value in start]
    made = body(step, carried)
    following = builder.add(step, index(1))
    last = builder.block
    for phi, first, then in zip([step, *carried], [index(0), *start], [following, *made], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(then, last)
    builder.cbranch(builder.icmp_signed("<", following, count), inside, after)
    builder.position_at_end(after)
    left = [builder.phi(value.type) for value in start]
    for phi, first, then in zip(left, start, made, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(then, last)
    return left


def choose(
    builder: ir.IRBuilder, condition: Any, yes: Callable[[], list[Any]], no: Callable[[], list[Any]]
) -> list[Any]:
    """What one of the two makes: by a jump, as nothing must be read where nothing is, not even with a mask."""
    ends = []
    with builder.if_else(condition) as branches:
        for branch, make in zip(branches, (yes, no), strict=True):
            with branch:
                ends.append((make(), builder.block))
    found = [builder.phi(value.type) for value in ends[0][0]]
    for made, end in ends:
        for phi, value in zip(found, made, strict=True):
            phi.add_incoming(value, end)
    return found


def tile(body: Callable[..., None], most: int = AT_ONCE) -> Any:
    """A piece of code for compiled loops, in a variant for every shape of a row's block: tile(numbers, block).

    The numbers, addresses and counts, are handed on to body(builder, row, *numbers).
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        numbers = [builder.extract_value(args[0], place) for place in range(len(signature.args[0]))]
        full, tail, valid = (builder.extract_value(args[1], place) for place in (1, 2, 3))
        after = builder.append_basic_block("done")
        switch = builder.switch(builder.add(builder.mul(full, index(2)), tail), after)
        for shape in ((n, tail) for n in range(most + 1) for tail in (0, 1) if 0 < n + tail <= most):
            case = builder.append_basic_block("shape")
            switch.add_case(index(2 * shape[0] + shape[1]), case)
            builder.position_at_end(case)
            body(builder, Row(builder, shape, valid), *numbers)
            builder.branch(after)
        builder.position_at_end(after)
        return context.get_dummy_value()

    @inline
    def code(_: Any, numbers: Any, part: Any) -> Any:
        return types.void(numbers, part), generate

    return code


@compiled
def block(first: int, q: int, most: int) -> tuple[int, int, int, int]:
    """The vectors of a row of q floats that begin at the `first`, so many at the most.

    → where they begin, how many are of 16, whether there is one of 4 behind them, how many lanes of the last one count.
    """
    left = q - first
    rest = left % LANES
    tail = 1 if 0 < rest <= TAIL else 0
    full = left // LANES + (1 if rest > TAIL else 0)
    blocks = -(-(full + tail) // most)
    if blocks > 1:  # as wide as those behind it
        return first, -(-(full + tail) // blocks), 0, LANES
    if tail:
        return first, full, 1, rest
    return first, full, 0, rest if rest else LANES


@inline
def _address(_: Any, number: Any) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.intp), generate


@compiled
def address(array: np.ndarray) -> int:
    """Where it begins. The array must be used afterwards: one of which nothing else is needed is freed at once."""
    found: int = np.int64(array.ctypes.data)  # type: ignore[assignment]
    return found


@compiled
def floats(address: int, count: int) -> np.ndarray:
    """So many floats that begin there."""
    return carray(_address(address), (count,), np.float32)


@compiled
def integers(address: int, count: int) -> np.ndarray:
    """So many int64 that begin there."""
    return carray(_address(address), (count,), np.int64)


@compiled
def copy(source: np.ndarray, target: np.ndarray) -> None:
    """Between slices that do not overlap."""
    for i in range(len(source)):  # vectorised, as neither wraps around
        target[i] = source[i]
