"""The work of a training step by the model's formulas: FLOPs and bytes, counted from shapes.

An implementation may need less: summing first saves products, a cache saves traffic.
"""

from itertools import pairwise
from typing import Any

from torch import nn

from permlab.datasets.manifest import Manifest
from permlab.platform.settings.run import RunSettings
from permlab.readouts.names import PAPER_METHODS, facts_of


def work_of(
    model: nn.Module, settings: RunSettings, manifest: Manifest, graphs: float, nodes: float, entries: float
) -> dict[str, float]:
    """`flops` and `bytes` of a step over a mean batch: B graphs, n nodes, Â with `entries` entries."""
    parameters = sum(weight.numel() for weight in model.parameters())
    kernels = getattr(model.readout, "out_channels", 0)
    return {
        "parameters": parameters,
        "flops": dense_flops(settings, manifest, graphs, nodes, kernels) + sparse_flops(settings, entries),
        "bytes": step_bytes(settings, manifest, graphs, nodes, kernels, parameters),
    }


def dense_flops(settings: RunSettings, manifest: Manifest, graphs: float, nodes: float, kernels: int) -> float:
    """Matrix products, forward and backward, without padding. Â·Z is precomputed, so the first layer needs no
    gradient of its input; sorting, activations and the optimiser are not counted.
    """
    gcn, *rest = _gcn_widths(settings, manifest)
    total = 2 * 2 * nodes * gcn[0] * gcn[1] + sum(3 * 2 * nodes * a * b for a, b in rest)
    d, method = settings.d, settings.method
    if method == "kernels":
        total += 2 * 2 * nodes * d * kernels  # the kernel vectors are fixed and need no gradient
    if method == "set2set":
        total += 3 * 3 * 2 * graphs * (2 * d + d) * 4 * d  # three steps of an LSTM, 2d → d
        total += 3 * 3 * 2 * 2 * nodes * d  # three times X q and Xᵀ a
    return total + sum(3 * 2 * rows * a * b for rows, a, b in _head(settings, graphs, nodes, kernels))


def sparse_flops(settings: RunSettings, entries: float) -> float:
    """Products with Â, forward and backward, each on the narrower side of its layer."""
    hidden, d = settings.model.hidden, settings.d
    inner = max(settings.model.layers - 2, 0)
    return 2 * 2 * entries * (inner * hidden + min(hidden, d) * (settings.model.layers > 1))


def step_bytes(
    settings: RunSettings, manifest: Manifest, graphs: float, nodes: float, kernels: int, parameters: int
) -> float:
    """Traffic if nothing stays in a cache between two uses: 10 floats per weight (read forward and backward,
    gradient written, Adam reads 4 and writes 3), 5 per activation (written, read; its gradient written, read;
    read again backward), 2 per feature.
    """
    first, *rest = _gcn_widths(settings, manifest)
    activations = nodes * (first[1] + sum(b for _, b in rest))
    activations += sum(rows * b for rows, _, b in _head(settings, graphs, nodes, kernels) if rows == graphs)
    return 4 * (10 * parameters + 5 * activations + 2 * nodes * first[0])


def _gcn_widths(settings: RunSettings, manifest: Manifest) -> list[tuple[int, int]]:
    widths = [len(manifest.feature_names), *[settings.model.hidden] * (settings.model.layers - 1), settings.d]
    return list(pairwise(widths))


def _head(settings: RunSettings, graphs: float, nodes: float, kernels: int) -> list[tuple[float, int, int]]:
    """(rows, in, out) of the head's products."""
    d, hidden, method = settings.d, settings.model.head_hidden, settings.method
    first: Any = {"ordering": (nodes, d + 1), "kernels": (graphs, kernels), "set2set": (graphs, 2 * d)}
    others = {True: (nodes, d), False: (graphs, d if method in PAPER_METHODS else kernels)}
    rows, width = first.get(method, others[facts_of(method).rows])
    inner = [(graphs, hidden, hidden)] * (settings.model.head_layers - 1)
    return [(rows, width, hidden), *inner, (graphs, hidden, 1)]
