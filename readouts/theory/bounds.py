"""(a₀, b₀) of inequality (1.2) that theorems give, for these exact classes: a subclass may compute something else."""

from collections.abc import Callable
from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

from permlab.readouts.averages import Max, Mean, Min, VariancePreserving
from permlab.readouts.filters import Gamma, MaxFilters, RankOneFilters
from permlab.readouts.pooling import Sum
from permlab.readouts.sliced import PSWE
from permlab.readouts.sorting import Ordering, ReducedOrdering, TrainedOrdering
from permlab.readouts.summing import DeepSets, DeepSetsReLU
from permlab.readouts.theory.lower_bound import shared_columns


def theorem_bounds(readout: Aggregation, n: int) -> tuple[float | None, float | None]:
    """a₀ and b₀ for matrices of n rows, each None if no theorem gives it."""
    upper = UPPER[type(readout)](readout, n) if type(readout) in UPPER else None
    if type(readout) in (Ordering, TrainedOrdering):
        key: Any = readout.key
        return shared_columns(key.detach().double().numpy(), n) or None, upper
    return None, upper


def sorting_key(readout: Any, n: int) -> Tensor | None:
    """The key A, if φ on n rows is an injective map after β_A: then φ is injective if and only if A is universal."""
    if type(readout) in (Ordering, TrainedOrdering):
        key: Tensor = readout.key.detach()
        return key
    if type(readout) is PSWE and n <= readout.ranks and readout.slices.size(1) >= readout.in_channels:
        return readout.slices.detach()
    return None


def _norm(matrix: Tensor) -> float:
    return float(torch.linalg.matrix_norm(matrix.detach().double(), 2))


def _of_filters(readout: Any, n: int) -> float:
    """|⟨b, ↓(Xa)⟩ − ⟨b, ↓(Ya)⟩| ≤ ‖b‖·‖(X − ΠY)a‖ for every Π."""
    weight = readout.weight[:n] if type(readout) is Gamma else readout.weight
    return _norm(readout.key * weight.norm(dim=0))


def _of_sums(readout: Any, n: int) -> float:
    return sqrt(n) * _norm(readout.aggregation.local_nn[0].weight)


UPPER: dict[type, Callable[[Any, int], float]] = {
    Sum: lambda readout, n: sqrt(n),
    Mean: lambda readout, n: 1 / sqrt(n),
    VariancePreserving: lambda readout, n: 1.0,
    Max: lambda readout, n: 1.0,
    Min: lambda readout, n: 1.0,
    Ordering: lambda readout, n: _norm(readout.key),
    TrainedOrdering: lambda readout, n: _norm(readout.key),
    ReducedOrdering: lambda readout, n: _norm(readout.key) * _norm(readout.weight),
    Gamma: _of_filters,
    RankOneFilters: _of_filters,
    MaxFilters: lambda readout, n: float(readout.templates.detach().norm()),
    DeepSets: _of_sums,
    DeepSetsReLU: _of_sums,
}
