"""Compiled CPU kernels for the operators of `readouts/segment_sort.py`: for finite values the same bits.

They serve the readouts wherever they are used, in somebody's own PyG model too, once `register()` was called.
"""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from permlab.readouts.segment_sort import (
    lexicographic_order,
    plain_lexicographic_order,
    plain_segment_sort,
    plain_segment_unsort,
    segment_sort,
    segment_unsort,
)
from permlab.tasks.engine.merge import lexicographic
from permlab.tasks.engine.network import put_back, sort_descending


@cache
def register() -> None:
    """From now on, in this process; `with segment_sort.set_kernel_enabled("cpu", False):` does without one."""
    segment_sort.register_kernel("cpu")(_segment_sort)
    segment_unsort.register_kernel("cpu")(_segment_unsort)
    lexicographic_order.register_kernel("cpu")(_lexicographic_order)


def _bounds(x: Tensor, ptr: Tensor) -> np.ndarray:
    """ptr as an array; the loops trust it."""
    bounds = ptr.contiguous().numpy()
    if bounds[0] != 0 or bounds[-1] != len(x) or (np.diff(bounds) < 0).any():
        raise IndexError(f"ptr must ascend from 0 to {len(x)}, the number of rows")
    return bounds


def _segment_sort(x: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    values = np.ascontiguousarray(x.detach().numpy()) if x.dtype in (torch.float32, torch.float64) else None
    if values is None or not x.numel():
        return plain_segment_sort(x, ptr)
    out, rows = sort_descending(values, _bounds(x, ptr))
    return torch.from_numpy(out), torch.from_numpy(rows)


def _segment_unsort(values: Tensor, rows: Tensor) -> Tensor:
    if values.dtype not in (torch.float32, torch.float64):
        return plain_segment_unsort(values, rows)
    return torch.from_numpy(put_back(np.ascontiguousarray(values.detach().numpy()), rows.contiguous().numpy()))


def _lexicographic_order(x: Tensor, ptr: Tensor) -> Tensor:
    if x.dtype not in (torch.float32, torch.float64) or not x.numel():
        return plain_lexicographic_order(x, ptr)
    return torch.from_numpy(lexicographic(np.ascontiguousarray(x.detach().numpy()), _bounds(x, ptr)))
