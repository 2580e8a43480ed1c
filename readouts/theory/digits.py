"""Arrays of mpf, and φ(X) by whichever formula is registered for a readout: as many digits as mpmath is set to."""

from functools import singledispatch
from typing import Any

import numpy as np
from mpmath import mp, mpf
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

exactly = np.vectorize(mpf, otypes=[object])  # an array of float64 → of mpf
exponentials, hyperbolic_tangents = (np.vectorize(f, otypes=[object]) for f in (mp.exp, mp.tanh))
cosines, sines = (np.vectorize(f, otypes=[object]) for f in (mp.cos, mp.sin))


class TooFlatError(ArithmeticError):
    """φ hardly changes here: images may be equal in all digits although φ(X) ≠ φ(Y)."""


def numbers(tensor: Tensor) -> np.ndarray:
    """The values of a tensor, exactly."""
    return exactly(tensor.detach().double().cpu().numpy())


def length(values: np.ndarray) -> Any:
    """‖values‖, an mpf."""
    return mp.sqrt(mp.fsum(value * value for value in values.flat))


def logistic(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + exponentials(-values))


@singledispatch
def formula(readout: Aggregation, X: np.ndarray) -> np.ndarray | None:
    """φ(X) [m], or None if no formula is known."""
    return None
