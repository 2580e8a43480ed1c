"""The metric of the quotient: d(X, Y) = min_Π ‖X − ΠY‖_F, (1.1), exactly, by linear assignment."""

from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from permlab.readouts.checks import as_matrix
from permlab.readouts.errors import ReadoutError


def matching(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """perm [n] with ‖X − Y[perm]‖_F smallest. Since ‖X − ΠY‖² = ‖X‖² + ‖Y‖² − 2⟨X, ΠY⟩: the largest ⟨X, ΠY⟩."""
    return linear_sum_assignment(X @ Y.T, maximize=True)[1]


def quotient_distance(X: Any, Y: Any) -> float:
    """d(X, Y) of two matrices [n, d]. Zero if and only if Y is X with its rows permuted. O(n³)."""
    x, y = _arrays(as_matrix("X", X), as_matrix("Y", Y))
    return float(np.linalg.norm(x - y[matching(x, y)]))


def quotient_distances(X: Tensor, Y: Tensor) -> Tensor:
    """Pairs X, Y [pairs, n, d] → d(X_p, Y_p), [pairs], float64."""
    return (X - align(X, Y)).double().flatten(1).norm(dim=1)


def align(X: Tensor, Y: Tensor) -> Tensor:
    """Pairs X, Y [pairs, n, d] → ΠY [pairs, n, d], the copy of each Y nearest to its X; differentiable in Y."""
    if X.dim() != 3:
        raise ReadoutError(f"X has shape {list(X.shape)}; a batch of pairs is [pairs, n, d]")
    x, y = _arrays(X, Y)
    perms = np.stack([matching(a, b) for a, b in zip(x, y, strict=True)]) if len(x) else np.zeros((0, x.shape[1]), int)
    return Y.gather(1, torch.from_numpy(perms).to(Y.device)[:, :, None].expand(-1, -1, Y.size(2)))


def _arrays(X: Tensor, Y: Tensor) -> tuple[np.ndarray, np.ndarray]:
    if X.shape != Y.shape:
        raise ReadoutError(f"X is {list(X.shape)} and Y is {list(Y.shape)}: d(X, Y) needs the same shape, n × d")
    return X.detach().double().cpu().numpy(), Y.detach().double().cpu().numpy()
