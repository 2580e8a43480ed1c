"""Softmax attention within every graph, and its gradient, compiled: a graph's rows are read while they are at hand."""

from functools import reduce
from typing import Any

import numpy as np
from llvmlite import ir

from permlab.readouts.compiled import compiled
from permlab.readouts.loops.bags import sum_rows
from permlab.readouts.loops.exponential import softmax
from permlab.readouts.loops.gemm import times
from permlab.readouts.loops.vectors import (
    FLOAT,
    LANES,
    ROW,
    TAIL,
    Row,
    address,
    block,
    call,
    index,
    loop,
    offset,
    pointer,
    tile,
)


def _scores_body(builder: ir.IRBuilder, row: Row, *numbers: Any) -> None:
    """out_k = ⟨x_k, q⟩ for so many rows of x, or out_k + ⟨x_k, q⟩ if there is `more`."""
    x, d, count, q, out, more = numbers
    first, result, query = pointer(builder, x), pointer(builder, out), row.load(pointer(builder, q))

    def step(k: Any, _: list[Any]) -> list[Any]:
        place, total = offset(builder, result, k), ir.Constant(FLOAT, 0.0)
        terms = [builder.fmul(*pair) for pair in zip(row.load(offset(builder, first, k, d)), query, strict=True)]
        for kind in dict.fromkeys(value.type for value in terms):  # first those of 16 together, then that of 4
            same = reduce(builder.fadd, (value for value in terms if value.type == kind))
            name = f"llvm.vector.reduce.fadd.v{kind.count}f32"
            total = call(builder, name, FLOAT, (total, same), any_order=True)
        before = builder.select(builder.icmp_signed("!=", more, index(0)), builder.load(place), ir.Constant(FLOAT, 0.0))
        builder.store(builder.fadd(before, total), place)
        return []

    loop(builder, count, [], step)


_scores = tile(_scores_body, ROW)


@compiled
def scores(x: int, d: int, count: int, q: int, out: int) -> None:
    """⟨x_k, q⟩ of so many rows [·, d]."""
    first = 0
    while first < d:
        part = block(first, d, ROW)
        _scores((x + 4 * first, d, count, q + 4 * first, out, first), part)
        first += LANES * part[1] + TAIL * part[2]


@compiled
def attend(x: np.ndarray, q: np.ndarray, ptr: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """a = softmax(⟨x_k, q_b⟩) over the rows k of every graph b, [n]; Σ_k a_k x_k goes to mean [B, d].

    x [n, d]; q [B, d], or [1, d] if it is the same for all.
    """
    d, weights = x.shape[1], np.empty(len(x), dtype=x.dtype)
    for graph in range(len(mean)):
        start, stop = ptr[graph], ptr[graph + 1]
        rows, to = address(x) + 4 * start * d, address(weights) + 4 * start
        scores(rows, d, stop - start, address(q) + 4 * (graph % len(q)) * d, to)
        softmax(weights[start:stop])
        sum_rows(rows, d, stop - start, to, address(mean) + 4 * graph * d)
    return weights


@compiled
def attend_back(
    x: np.ndarray,
    ptr: np.ndarray,
    weights: np.ndarray,
    q: np.ndarray,
    mean: np.ndarray,
    grad_mean: np.ndarray,
    tables: np.ndarray,
    factors: np.ndarray,
) -> np.ndarray:
    """The gradient of q, [B, d]: Σ_k s_k x_k, s_k = a_k (⟨x_k, ∂mean⟩ − ⟨mean, ∂mean⟩) that of the scores.

    What x gets is left to `spread`: tables [B, 2, d], factors [n, 2].
    """
    d, grad_q = x.shape[1], np.empty_like(grad_mean)
    gradient = np.empty(len(x), dtype=x.dtype)
    for graph in range(len(mean)):
        start, count = ptr[graph], ptr[graph + 1] - ptr[graph]
        along, inside = np.float32(0), gradient[start : start + count]
        for c in range(d):
            along += mean[graph, c] * grad_mean[graph, c]
        tables[graph, 0], tables[graph, 1] = grad_mean[graph], q[graph % len(q)]
        rows, to = address(x) + 4 * start * d, address(gradient) + 4 * start
        scores(rows, d, count, address(grad_mean) + 4 * graph * d, to)
        for k in range(count):
            inside[k] = weights[start + k] * (inside[k] - along)
            factors[start + k, 0], factors[start + k, 1] = weights[start + k], inside[k]
        sum_rows(rows, d, count, to, address(grad_q) + 4 * graph * d)
    return grad_q


@compiled
def spread(tables: np.ndarray, factors: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """Σ_t factor_{k, t} table_{b, t} for every row k of every graph b: tables [B, T, d], factors [n, T] → [n, d]."""
    (n, terms), d, none, one = factors.shape, tables.shape[2], np.int64(0), np.int64(1)
    out = np.empty((n, d), dtype=np.float32)
    for graph in range(len(tables)):
        start, count = ptr[graph], ptr[graph + 1] - ptr[graph]
        left, right = address(factors) + 4 * start * terms, address(tables) + 4 * graph * terms * d
        to = address(out) + 4 * start * d
        times(left, terms, count, terms, right, d, one, none, d, none, none, none, to, d)
    return out
