"""One readout alone, forward and backward, from three sides in turn. Runs in a worker: see `worker.py`."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from permlab.platform.bench.padded import aggregation, padded
from permlab.platform.bench.tables import spread
from permlab.readouts.base import Readout, RowReadout
from permlab.readouts.catalogue import build
from permlab.readouts.segments import segment_ids, sort_rows

LEAST = 0.02  # seconds that a measurement takes at least
MOST_PADDED = 2**25  # numbers in a padded tensor: 128 MB, and as much again several times over


def compare(method: str, d: int, sizes: list[int], repeats: int) -> dict[str, Any]:
    """{side: {"forward_ms", "backward_ms", "ms", "range"}}; a side that there is not, or that is too large, is None."""
    x, ptr = draw(sizes, d)
    index = segment_ids(ptr)
    sides = {
        name: None if pool is None else _timer(pool, x, index if name != "ours" else ptr)
        for name, pool in ways(method, d, sizes).items()
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, timer in sides.items():
            if timer:
                times[name].append((timer(False), timer(True)))
    return {name: _summary(found) if found else None for name, found in times.items()}


def draw(sizes: list[int], d: int) -> tuple[Tensor, Tensor]:
    """x [n, d] and ptr of graphs of these sizes."""
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    return torch.randn(int(ptr[-1]), d, generator=torch.Generator().manual_seed(0)), ptr


def ways(method: str, d: int, sizes: list[int]) -> dict[str, Callable[[Tensor, Tensor], Tensor] | None]:
    """Ours takes (x, ptr), the others (x, index). A row readout gives its rows, as the head takes them."""
    largest = max(sizes)
    readout: Readout | None = None
    ours: Callable[[Tensor, Tensor], Tensor]
    if method == "sort_columns":
        ours = sort_rows
    else:
        readout = build(method, d, largest).float()
        ours = readout.ordered if isinstance(readout, RowReadout) else readout.pool
    width = max(d, readout.out_channels) if method == "kernels" and readout is not None else d
    fits = len(sizes) * largest * width <= MOST_PADDED
    sorts = method in ("sort_columns", "ordering", "sort")
    return {
        "ours": ours,
        "padded": padded(method, largest, readout) if fits else None,
        "pyg": aggregation(method, largest, readout) if fits or not sorts else None,
    }


def _timer(pool: Callable[[Tensor, Tensor], Tensor], x: Tensor, where: Tensor) -> Callable[[bool], float]:
    """`timer(backward)`: seconds of a call, forward alone or with its gradient; each measurement takes a while."""
    leaf = x.clone().requires_grad_()
    gradient = torch.ones_like(pool(leaf, where))

    def once(backward: bool) -> None:
        leaf.grad = None
        out = pool(leaf, where)
        if backward:
            out.backward(gradient)

    start = time.perf_counter()
    once(True)
    count = max(1, int(LEAST / (time.perf_counter() - start)))

    def timer(backward: bool) -> float:
        start = time.perf_counter()
        for _ in range(count):
            once(backward)
        return (time.perf_counter() - start) / count

    return timer


def _summary(times: list[tuple[float, float]]) -> dict[str, Any]:
    forward = statistics.median(1000 * seconds for seconds, _ in times)
    both = [1000 * seconds for _, seconds in times]
    total = statistics.median(both)
    return {"ms": total, "range": spread(both), "forward_ms": forward, "backward_ms": max(0.0, total - forward)}
