"""Compiled CPU kernels for the operators of `readouts/segment_sort.py`: for finite values the same bits.

Once `register()` was called they serve every use of the readouts, in your own PyG model too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import torch
from torch import Tensor

from permlab.readouts.segment_sort import (
    plain_lexicographic_order,
    plain_segment_sort,
    plain_segment_unsort,
)
from permlab.tasks.engine.merge import lexicographic
from permlab.tasks.engine.network import largest_graph, put_back, sort_descending

_in_use = True


@cache
def register() -> None:
    """Use the kernels from now on, in this process; `with plain_operators():` turns them off."""
    torch.library.impl("permlab::segment_sort", "cpu", _segment_sort)
    torch.library.impl("permlab::segment_unsort", "cpu", _segment_unsort)
    torch.library.impl("permlab::lexicographic_order", "cpu", _lexicographic_order)


@contextmanager
def plain_operators() -> Iterator[None]:
    """The operators by their plain definitions, for comparison."""
    global _in_use
    before, _in_use = _in_use, False
    try:
        yield
    finally:
        _in_use = before


def _takes(x: Tensor) -> bool:
    return _in_use and x.dtype in (torch.float32, torch.float64) and x.numel() > 0


def _array(x: Tensor) -> np.ndarray:
    return np.ascontiguousarray(x.detach().numpy())


def _segment_sort(x: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    if not _takes(x):
        return plain_segment_sort(x, ptr)
    out, rows = sort_descending(_array(x), _array(ptr))
    return torch.from_numpy(out), torch.from_numpy(rows)


def _segment_unsort(values: Tensor, rows: Tensor) -> Tensor:
    if not _takes(values):
        return plain_segment_unsort(values, rows)
    return torch.from_numpy(put_back(_array(values), _array(rows)))


def _lexicographic_order(x: Tensor, ptr: Tensor) -> Tensor:
    if not _takes(x):
        return plain_lexicographic_order(x, ptr)
    bounds = _array(ptr)
    largest_graph(bounds, len(x))
    return torch.from_numpy(lexicographic(_array(x), bounds))
