"""The algebraic embeddings of section 2: coefficients of polynomials whose factors are the rows.

α₀ and ζ₀ come from multiplying the linear factors one by one, for a whole batch at once. A zero row multiplies P_X by
t, which leaves the coefficients where they are: they are indexed from the top, so padding to a common N is consistent.
"""

from functools import lru_cache
from itertools import chain, combinations_with_replacement
from math import comb
from typing import Any

import numpy as np
import torch
from torch import Tensor

from permlab.readouts.checks import as_matrix
from permlab.readouts.errors import ReadoutError
from permlab.readouts.segments import flat_padded, segment_ids, segment_sum

MAX_OUTPUTS = 100_000


def monomials(d: int, degree: int) -> list[tuple[int, ...]]:
    """The index set of (2.6) without p₀: exponents (p₁, …, p_d) with 1 ≤ |p| ≤ degree, by |p|, then p₁ descending, …"""
    outputs = comb(degree + d, d) - 1
    if outputs > MAX_OUTPUTS:
        raise ReadoutError(
            f"n = {degree} rows in d = {d} give {outputs:,} coefficients; the limit is {MAX_OUTPUTS:,}: "
            "use fewer rows or a smaller d"
        )
    picks = chain.from_iterable(combinations_with_replacement(range(d), k) for k in range(1, degree + 1))
    return [tuple(pick.count(j) for j in range(d)) for pick in picks]


@lru_cache(maxsize=32)
def _lower(d: int, degree: int) -> np.ndarray:
    """[m + 1, d]: the index of the coefficient of p − e_j in the list (1, c_p for p in monomials, 0)."""
    places = {p: place for place, p in enumerate([(0,) * d, *monomials(d, degree)])}
    zero = len(places)

    def below(p: tuple[int, ...], j: int) -> int:
        return places.get((*p[:j], p[j] - 1, *p[j + 1 :]), zero)

    return np.array([[below(p, j) for j in range(d)] for p in places])


def coefficients(x: Tensor, ptr: Tensor, max_nodes: int) -> Tensor:
    """x [n, d] → [B, C(N+d, d) − 1]: the coefficients of P_X(t, X₁, …) = Π_k (t − Σ_j x_{k,j} X_j) for each graph."""
    d, graphs = x.size(1), ptr.numel() - 1
    lower = torch.from_numpy(_lower(d, max_nodes)).to(x.device, non_blocking=True)
    factors = flat_padded(x, ptr, max_nodes).view(graphs, max_nodes, d)
    zero = x.new_zeros(graphs, 1)
    product = torch.cat([zero + 1, x.new_zeros(graphs, lower.size(0) - 1)], dim=1)  # the polynomial 1
    for k in range(max_nodes):
        padded = torch.cat([product, zero], dim=1)
        for j in range(d):
            product = product - factors[:, k, j, None] * padded[:, lower[:, j]]
    return product[:, 1:]


def complex_coefficients(x: Tensor, ptr: Tensor, max_nodes: int) -> Tensor:
    """x [n, 2] → [B, 2N]: (Re q_{N−1}, Im q_{N−1}, …, Re q₀, Im q₀) of Q(t) = Π_k (t − z_k), z = x₁ + ix₂."""
    graphs = ptr.numel() - 1
    z = flat_padded(x, ptr, max_nodes).view(graphs, max_nodes, 2)
    zero = x.new_zeros(graphs, 1)
    real, imag = (
        torch.cat([zero + 1, x.new_zeros(graphs, max_nodes)], dim=1),
        x.new_zeros(graphs, max_nodes + 1),
    )
    for k in range(max_nodes):
        a, b = z[:, k, 0, None], z[:, k, 1, None]
        shifted_real, shifted_imag = (
            torch.cat([zero, real[:, :-1]], dim=1),
            torch.cat([zero, imag[:, :-1]], dim=1),
        )
        real, imag = (
            real - a * shifted_real + b * shifted_imag,
            imag - a * shifted_imag - b * shifted_real,
        )
    return torch.stack([real[:, 1:], imag[:, 1:]], dim=2).flatten(1)


def norms(x: Tensor, ptr: Tensor) -> Tensor:
    """‖X‖_F of every graph, [B]; where it is 0 the gradient is 0, not NaN."""
    squares = segment_sum(x.square(), ptr).sum(dim=1)
    positive = squares > 0
    return torch.where(positive, torch.where(positive, squares, 1.0).sqrt(), 0.0)


def into_ball(x: Tensor, ptr: Tensor, lengths: Tensor) -> Tensor:
    """φ₀(‖X‖)·X with φ₀(t) = min(1, 1/t): the nearest point of the unit ball, (2.7)."""
    return x / lengths.clamp(min=1)[segment_ids(ptr, len(x)), None]


def onto_sphere(x: Tensor, ptr: Tensor, lengths: Tensor) -> Tensor:
    """X/‖X‖, and 0 for X = 0."""
    return x / torch.where(lengths > 0, lengths, 1.0)[segment_ids(ptr, len(x)), None]


def _one(X: Any) -> tuple[Tensor, Tensor, int]:
    x = as_matrix("X", X)
    return x, torch.tensor([0, x.size(0)], device=x.device), x.size(0)


def alpha0(X: Any) -> Tensor:
    """α₀(X): the non-trivial coefficients of P_X, [n, d] → R^{C(n+d, d) − 1}, in the order of `monomials`.

    Injective and analytic (Theorem 2.1). Not Lipschitz: it grows like ‖X‖ⁿ.
    """
    return coefficients(*_one(X))[0]


def alpha1(X: Any) -> Tensor:
    """α₁(X) = (α₀(φ₀(‖X‖)X), ‖X‖): [n, d] → R^{C(n+d, d)}. Injective, Lipschitz (Corollary 2.3), not bi-Lipschitz."""
    x, ptr, n = _one(X)
    lengths = norms(x, ptr)
    return torch.cat([coefficients(into_ball(x, ptr, lengths), ptr, n)[0], lengths])


def alpha2(X: Any) -> Tensor:
    """α₂(X) = (‖X‖α₀(X/‖X‖), ‖X‖), α₂(0) = 0: [n, d] → R^{C(n+d, d)}.

    Injective and Lipschitz, (2.9), not bi-Lipschitz.
    """
    x, ptr, n = _one(X)
    lengths = norms(x, ptr)
    return torch.cat([lengths * coefficients(onto_sphere(x, ptr, lengths), ptr, n)[0], lengths])


def zeta0(X: Any) -> Tensor:
    """ζ₀(X): the coefficients of Q(t) = Π_k (t − x_{k,1} − i·x_{k,2}), [n, 2] → R^{2n}. Injective, not Lipschitz."""
    x, ptr, n = _one(X)
    if x.size(1) != 2:
        raise ReadoutError(f"X has d = {x.size(1)} columns; ζ₀ needs d = 2, one complex number per row")
    return complex_coefficients(x, ptr, n)[0]
