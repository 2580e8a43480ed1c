"""Input checks. Each refusal is one line that names the limit and the value.

NaN policy: NaN and ±inf are refused. Sorting would move a NaN to a place that looks like data, and a sum would hide
which graph it came from. The check is one sum over x; every entry is checked only if that sum is not finite.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from permlab.readouts.errors import ReadoutError

MOST_OUTPUTS = 10_000  # columns that a map sorts or sums for every node


def check_shape(x: Tensor, in_channels: int) -> None:
    """x is [n, in_channels], floating."""
    if x.dim() != 2:
        raise ReadoutError(f"x has {x.dim()} dimensions, shape {list(x.shape)}; a readout takes x [n, {in_channels}]")
    if x.size(1) != in_channels:
        raise ReadoutError(
            f"x has {x.size(1)} columns, but the readout was built for d = {in_channels}: build it for d = {x.size(1)}"
        )
    if not x.is_floating_point():
        raise ReadoutError(f"x is {x.dtype}; a readout takes float32 or float64: x.float()")


def check_finite(x: Tensor) -> None:
    """No entry of x is NaN or infinite. Waits for the device."""
    if not torch.isfinite(x.detach().sum()):  # a sum of finite entries may overflow: look closer before refusing
        bad = ~torch.isfinite(x)
        if bad.any():
            row, column = bad.nonzero()[0].tolist()
            value = x[row, column].item()
            raise ReadoutError(
                f"x[{row}, {column}] is {value}, one of {int(bad.sum())} entries that are not finite: "
                "readouts refuse NaN and inf"
            )


def check_ptr(ptr: Tensor, n: int, max_nodes: int | None) -> None:
    """ptr rises from 0 to n, and no graph has more than max_nodes rows."""
    if ptr.dim() != 1 or ptr.numel() == 0 or ptr.dtype != torch.int64:
        raise ReadoutError(f"ptr is {ptr.dtype} of shape {list(ptr.shape)}; it must be int64 [B + 1]")
    first, last = int(ptr[0]), int(ptr[-1])
    if first != 0 or last != n:
        raise ReadoutError(f"ptr goes from {first} to {last}, but x has {n} rows: it must go from 0 to {n}")
    if ptr.numel() == 1:
        return
    smallest, largest = (int(size) for size in ptr.diff().aminmax())
    if smallest < 0:
        raise ReadoutError(f"ptr falls by {-smallest} somewhere; it must ascend")
    if max_nodes is not None and largest > max_nodes:
        raise ReadoutError(
            f"a graph has {largest} nodes, but the readout was built for max_nodes = {max_nodes} at most"
        )


def ptr_from_index(index: Tensor | None, x: Tensor, dim_size: int | None) -> Tensor:
    """The graph of each row, ascending, [n] → ptr [B+1]. None: all rows are one graph."""
    n = x.size(0)
    if index is None:
        if dim_size not in (None, 1):
            raise ReadoutError(f"dim_size is {dim_size}, but without index or ptr there is one graph")
        return torch.tensor([0, n], device=x.device)
    if index.dim() != 1 or index.numel() != n or index.dtype != torch.int64:
        raise ReadoutError(
            f"index is {index.dtype} of shape {list(index.shape)}; it must be int64 [{n}], as x has {n} rows"
        )
    if n and bool((index[1:] < index[:-1]).any()):
        place = int((index[1:] < index[:-1]).nonzero()[0]) + 1
        raise ReadoutError(
            f"index is not sorted: index[{place}] = {int(index[place])} comes after {int(index[place - 1])}; "
            "sort the rows by graph first (order = index.argsort(stable=True))"
        )
    if n and int(index[0]) < 0:
        raise ReadoutError(f"index[0] is {int(index[0])}; graphs are numbered from 0")
    needed = int(index[-1]) + 1 if n else 0
    graphs = needed if dim_size is None else dim_size
    if graphs < needed:
        raise ReadoutError(
            f"dim_size is {dim_size}, but index names graph {needed - 1}: dim_size must be at least {needed}"
        )
    counts = torch.bincount(index, minlength=graphs)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def check_size(name: str, value: object, least: int = 1, most: int = 2**63 - 1) -> None:
    """A size given to a constructor is an integer from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ReadoutError(f"{name} is {value!r}; it must be an integer of at least {least}")
    if value > most:
        raise ReadoutError(f"{name} is {value}; the limit is {most:,}")


def check_positive(name: str, value: object) -> None:
    """A scale given to a constructor is a positive number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ReadoutError(f"{name} is {value!r}; it must be positive and finite")


def enough_outputs(name: str, enough: int, out_channels: int | None) -> int:
    """m: what was asked for, or as many numbers as a theorem wants for `name` to be injective."""
    if out_channels is None and enough > MOST_OUTPUTS:
        raise ReadoutError(
            f"{name} would give m = {enough:,} outputs, which make it injective; the limit is {MOST_OUTPUTS:,}: "
            "choose a smaller out_channels, which does not promise that, a smaller d or smaller graphs"
        )
    m = enough if out_channels is None else out_channels
    check_size("out_channels", m, most=MOST_OUTPUTS)
    return m


def as_matrix(name: str, value: Any) -> Tensor:
    """A tensor, array or nested list → a finite floating matrix, float64 unless it was floating already."""
    matrix = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))  # lists stay float64
    if not matrix.is_floating_point():
        matrix = matrix.to(torch.float64)
    if matrix.dim() != 2 or 0 in matrix.shape:
        raise ReadoutError(f"{name} has shape {list(matrix.shape)}; it must be a matrix with rows and columns")
    if not torch.isfinite(matrix).all():
        raise ReadoutError(f"{name} has entries that are not finite; NaN and inf are refused")
    return matrix


def check_key(A: Any, d: int | None = None) -> Tensor:
    """A as float64 [d, D] with D ≥ d, or a ReadoutError. A key with D < d separates nothing."""
    key = as_matrix("the key A", A).detach().to(torch.float64)
    if d is not None and key.size(0) != d:
        raise ReadoutError(f"the key A has {key.size(0)} rows, but d = {d}: it must be [{d}, D]")
    if key.size(1) < key.size(0):
        raise ReadoutError(f"the key A has D = {key.size(1)} columns, fewer than d = {key.size(0)}: it needs D ≥ d")
    return key
