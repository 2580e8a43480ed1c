"""One readout alone, forward and backward, from four sides in turn. Runs in a worker: see `worker.py`."""

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from permlab.platform.bench.padded import aggregation, padded
from permlab.platform.bench.tables import spread
from permlab.platform.run.engine_choice import register_kernels
from permlab.readouts.base import Readout, RowReadout
from permlab.readouts.catalogue import build
from permlab.readouts.segment_sort import sort_rows
from permlab.readouts.segments import segment_ids

LEAST = 0.02  # seconds: shorter measurements are too noisy
MOST_PADDED = 2**25  # numbers in a padded tensor: 128 MB, and several such tensors are needed
Pool = Callable[[Tensor, Tensor], Tensor]


def start() -> None:
    """Give our operators the engine's compiled kernels, if numba is installed."""
    register_kernels()


def compare(method: str, d: int, sizes: list[int], repeats: int) -> dict[str, Any]:
    """{side: {"forward_ms", "backward_ms", "ms", "range"}}; None for a side that does not exist or is too large."""
    x, ptr = draw(sizes, d)
    sides = {name: pool and timer_of(name, pool, x, ptr) for name, pool in ways(method, d, sizes).items()}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, timer in sides.items():
            if timer:
                times[name].append((timer(False), timer(True)))
    return {name: summary(pairs) if pairs else None for name, pairs in times.items()}


def draw(sizes: list[int], d: int) -> tuple[Tensor, Tensor]:
    """x [n, d] and ptr of graphs of these sizes."""
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    return torch.randn(int(ptr[-1]), d, generator=torch.Generator().manual_seed(0)), ptr


def ways(method: str, d: int, sizes: list[int]) -> dict[str, Pool | None]:
    """Ours, compiled or plain, takes (x, ptr), the others (x, index). A row readout returns rows, for the head."""
    largest = max(sizes)
    readout = None if method == "sort_columns" else build(method, d, largest).float()
    width = max(d, readout.out_channels) if method == "kernels" and readout is not None else d
    fits = len(sizes) * largest * width <= MOST_PADDED
    sorts = method in ("sort_columns", "ordering", "sort")
    return {
        "ours": ours_of(readout),
        "plain": ours_of(readout),
        "padded": padded(method, largest, readout) if fits else None,
        "pyg": aggregation(method, largest, readout) if fits or not sorts else None,
    }


def ours_of(readout: Readout | None) -> Pool:
    """A readout, or the segmented sort itself."""
    if readout is None:
        return sort_rows
    readout.validate = False  # as in a GraphModel
    options = {"padded": False} if isinstance(readout, RowReadout) else {}
    return lambda x, ptr: readout(x, ptr=ptr, **options)


def plain_operators() -> AbstractContextManager[None]:
    """Our operators by their definitions, without the engine's kernels."""
    if not find_spec("numba"):
        return nullcontext()
    from permlab.tasks.engine import kernels

    return kernels.plain_operators()


def timer_of(name: str, pool: Pool, x: Tensor, ptr: Tensor) -> Callable[[bool], float]:
    """`timer(backward)`: seconds per call, forward alone or with backward, averaged over enough calls to be stable."""
    segments = ptr if name in ("ours", "plain") else segment_ids(ptr, len(x))
    kernels: Callable[[], AbstractContextManager[None]] = plain_operators if name == "plain" else nullcontext
    leaf = x.clone().requires_grad_()
    gradient = torch.ones_like(pool(leaf, segments))

    def seconds(backward: bool, count: int) -> float:
        with kernels():
            start = time.perf_counter()
            for _ in range(count):
                leaf.grad = None
                out = pool(leaf, segments)
                if backward:
                    out.backward(gradient)
            return time.perf_counter() - start

    count = max(1, int(LEAST / seconds(True, 1)))
    return lambda backward: seconds(backward, count) / count


def summary(times: list[tuple[float, float]]) -> dict[str, Any]:
    forward = statistics.median(1000 * seconds for seconds, _ in times)
    both = [1000 * seconds for _, seconds in times]
    total = statistics.median(both)
    return {"ms": total, "range": spread(both), "forward_ms": forward, "backward_ms": max(0.0, total - forward)}
