"""One readout, forward and backward, beside PyG's aggregation or a padded sort. Runs in a worker: see `worker.py`."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from permlab.platform.bench.padded import sorted_columns
from permlab.platform.bench.sizes import sizes_of
from permlab.platform.bench.sort_cell import Pool, draw, ours_of, start, summary, timer_of
from permlab.platform.plugins.code import load
from permlab.platform.plugins.names import codes_among
from permlab.platform.plugins.resolve import readout_named
from permlab.readouts import filters, sliced, sorting
from permlab.readouts.catalogue import build
from permlab.readouts.errors import ReadoutError
from permlab.readouts.from_pyg import FromPyG
from permlab.readouts.segments import flat_padded, segment_ids

__all__ = ["compare", "start"]

SORTING = (sorting, filters, sliced)  # the files whose maps sort columns


def compare(method: str, d: int, repeats: int) -> dict[str, Any]:
    """m, the cost that the readout states, its times, and those of the other way; or why it is not built."""
    for head in codes_among([method]):
        load(head)
    made_by, options = readout_named(method)
    sizes = sizes_of("proteins")
    try:
        readout: Any = build(made_by, d, max(sizes), **options)
    except ReadoutError as refusal:
        return {"refused": str(refusal)}
    x, ptr = draw(sizes, d)
    pool = ours_of(readout.float())
    sides: dict[str, Any] = {"ours": timer_of("ours", pool, x, ptr)}
    facts = {"m": readout.out_channels, "cost": getattr(readout, "cost", "")}
    if isinstance(readout, FromPyG):
        sides["pyg"] = timer_of("pyg", with_pyg(readout, len(sizes)), x, ptr)
    elif type(readout).__module__ in {module.__name__ for module in SORTING}:
        with padded_sorts():
            sides["padded"] = timer_of("ours", pool, x, ptr)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, timer in sides.items():
            if name == "padded":
                with padded_sorts():
                    times[name].append((timer(False), timer(True)))
            else:
                times[name].append((timer(False), timer(True)))
    return facts | {name: summary(pairs) for name, pairs in times.items()}


def with_pyg(readout: FromPyG, graphs: int) -> Pool:
    """PyG's aggregation as anybody calls it: the whole batch at once."""
    return lambda x, index: readout.aggregation(x, index, dim_size=graphs)


def padded_sort(x: Tensor, ptr: Tensor, with_sum: bool = False) -> Tensor:
    """`sort_rows` on a dense tensor [B, N, k], as one would write it."""
    x = torch.cat([x, x.sum(1, keepdim=True)], dim=1) if with_sum else x
    index, largest = segment_ids(ptr, len(x)), int(ptr.diff().max())
    dense = sorted_columns(x, index, largest).view(-1, x.size(1))
    slots = flat_padded(torch.ones_like(x[:, :1]), ptr, largest).view(-1).nonzero()[:, 0]
    return dense.index_select(0, slots)


@contextmanager
def padded_sorts() -> Iterator[None]:
    """The maps that sort do it on padded tensors."""
    with ExitStack() as patches:
        for module in SORTING:
            patches.enter_context(patch.object(module, "sort_rows", padded_sort))
        yield
