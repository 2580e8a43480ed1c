"""Softmax attention within every graph, and its gradient, compiled: a graph's rows are read while they are at hand."""

from typing import Any

import numpy as np
from llvmlite import ir

from permlab.readouts.bags import sum_rows
from permlab.readouts.compiled import compiled
from permlab.readouts.exponential import softmax
from permlab.readouts.gemm import times
from permlab.readouts.vectors import FLOAT, LANES, ROW, TAIL, Row, address, block, call, index, loop, offset, pointer, tile


def _scores_body(builder: ir.IRBuilder, row: Row, *numbers: Any) -> None:
    """out_k = ⟨x_k, q⟩ for so many rows of x, or out_k + ⟨x_k, q⟩ if there is `more`."""
    x, d, count, q, out, more = numbers
    first, result, query = pointer(builder, x), pointer(builder, out), row.load(pointer(builder, q))

    def step(k: Any, _: list[Any]) -> list[Any]:
        place, total = offset(builder, result, k), ir.Constant(FLOAT, 0.0)
        for value, factor in zip(row.load(offset(builder, first, k, d)), query, strict=True):
            terms, name = builder.fmul(value, factor), f"llvm.vector.reduce.fadd.v{value.type.count}f32"
            total = call(builder, name, FLOAT, (total, terms), any_order=True)
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
def attend(x: np.ndarray, q: np.ndarray, ptr: np.ndarray, star: np.ndarray) -> np.ndarray:
    """a = softmax(⟨x_k, q_b⟩) over the rows k of every graph b, [n]; q_b and Σ_k a_k x_k go to star [B, 2d].

    x [n, d]; q [B, d], or [1, d] if it is the same for all.
    """
    d, weights = x.shape[1], np.empty(len(x), dtype=x.dtype)
    for graph in range(len(star)):
        start, stop = ptr[graph], ptr[graph + 1]
        query, mean = star[graph, :d], star[graph, d:]
        query[:] = q[graph % len(q)]
        rows, to = address(x) + 4 * start * d, address(weights) + 4 * start
        scores(rows, d, stop - start, address(query), to)
        softmax(weights[start:stop])
        sum_rows(rows, d, stop - start, to, address(mean))
    return weights


@compiled
def attend_back(
    x: np.ndarray,
    ptr: np.ndarray,
    weights: np.ndarray,
    star: np.ndarray,
    grad: np.ndarray,
    tables: np.ndarray,
    factors: np.ndarray,
) -> np.ndarray:
    """The gradient of q, [B, d], that of star [B, 2d] given: its own, and Σ_k s_k x_k through the scores' gradient s.

    s_k = a_k (⟨x_k, ∂mean⟩ − ⟨mean, ∂mean⟩). What x gets is left to `spread`: tables [B, 2, d], factors [n, 2].
    """
    d, grad_q = x.shape[1], np.empty((len(grad), x.shape[1]), dtype=x.dtype)
    gradient = np.empty(len(x), dtype=x.dtype)
    for graph in range(len(grad)):
        start, count = ptr[graph], ptr[graph + 1] - ptr[graph]
        given, through, inside = grad[graph, d:], grad_q[graph], gradient[start : start + count]
        along = np.float32(0)
        for c in range(d):
            along += star[graph, d + c] * given[c]
        tables[graph, 0], tables[graph, 1] = given, star[graph, :d]
        rows, to = address(x) + 4 * start * d, address(gradient) + 4 * start
        scores(rows, d, count, address(given), to)
        for k in range(count):
            inside[k] = weights[start + k] * (inside[k] - along)
            factors[start + k, 0], factors[start + k, 1] = weights[start + k], inside[k]
        sum_rows(rows, d, count, to, address(through))
        for c in range(d):
            through[c] += grad[graph, c]
    gradient[:0] = grad_q[0, :0]
    return grad_q


@compiled
def spread(tables: np.ndarray, factors: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """Σ_t factor_{k, t} table_{b, t} for every row k of every graph b: tables [B, T, d], factors [n, T] → [n, d]."""
    (n, terms), d = factors.shape, tables.shape[2]
    out = np.empty((n, d), dtype=np.float32)
    for graph in range(len(tables)):
        start, count = ptr[graph], ptr[graph + 1] - ptr[graph]
        left, right = address(factors) + 4 * start * terms, address(tables) + 4 * graph * terms * d
        times(left, terms, count, terms, right, d, 1, 0, d, 0, 0, 0, address(out) + 4 * start * d, d)
    return out
