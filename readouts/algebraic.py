"""The algebraic embeddings as readouts. Their output grows fast: sizes above 100,000 are refused."""

from math import comb
from typing import ClassVar

import torch
from torch import Tensor

from permlab.readouts import polynomial
from permlab.readouts.base import Readout
from permlab.readouts.checks import check_size
from permlab.readouts.errors import ReadoutError


class _Algebraic(Readout):
    """Coefficients of one polynomial of degree N per graph: X is padded with zero rows. The lower bound is 0."""

    permutation_invariant = True
    injective = "yes"
    bi_lipschitz = False
    max_nodes: int
    extra: ClassVar[int]  # outputs in addition to the coefficients

    def __init__(self, in_channels: int, max_nodes: int) -> None:
        check_size("in_channels", in_channels)
        check_size("max_nodes", max_nodes)
        m = self.size(in_channels, max_nodes)
        if m > polynomial.MAX_OUTPUTS:
            raise ReadoutError(
                f"{type(self).__name__} of N = {max_nodes} rows in d = {in_channels} would give m = {m:,} "
                f"outputs; the limit is {polynomial.MAX_OUTPUTS:,}: use a smaller d or smaller graphs"
            )
        super().__init__()
        self.in_channels, self.max_nodes, self.out_channels = in_channels, max_nodes, m

    def size(self, d: int, n: int) -> int:
        return comb(n + d, d) - 1 + self.extra

    def encode(self, x: Tensor, ptr: Tensor) -> Tensor:
        return polynomial.coefficients(x, ptr, self.max_nodes)


class Alpha0(_Algebraic):
    """φ(X) = α₀(X), the non-trivial coefficients of P_X(t, X₁, …) = Π_k (t − Σ_j x_{k,j} X_j): → R^{C(N+d, d) − 1}.

    Injective, analytic. Not Lipschitz: it grows like ‖X‖^N.
    """

    lipschitz = False
    formula = "coefficients of Πₖ(t − ⟨xₖ, ·⟩)"
    dimension = "C(N+d, d) − 1"
    cost = "N·d·m"
    reference = "(2.5), Theorem 2.1"
    extra = 0

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        return self.encode(x, ptr)


class Alpha1(_Algebraic):
    """φ(X) = α₁(X) = (α₀(φ₀(‖X‖)X), ‖X‖), φ₀(t) = min(1, 1/t): → R^{C(N+d, d)}.

    Injective, Lipschitz, not bi-Lipschitz.
    """

    lipschitz = True
    formula = "(α₀(X·min(1, 1/‖X‖)), ‖X‖)"
    dimension = "C(N+d, d)"
    cost = "N·d·m"
    reference = "(2.8), Corollary 2.3"
    extra = 1

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        lengths = polynomial.norms(x, ptr)
        inside = self.encode(polynomial.into_ball(x, ptr, lengths), ptr)
        return torch.cat([inside, lengths[:, None]], dim=1)


class Alpha2(_Algebraic):
    """φ(X) = α₂(X) = (‖X‖α₀(X/‖X‖), ‖X‖), α₂(0) = 0: → R^{C(N+d, d)}.

    Injective, Lipschitz, not bi-Lipschitz.
    """

    lipschitz = True
    formula = "(‖X‖·α₀(X/‖X‖), ‖X‖)"
    dimension = "C(N+d, d)"
    cost = "N·d·m"
    reference = "(2.9)"
    extra = 1

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        lengths = polynomial.norms(x, ptr)
        inside = self.encode(polynomial.onto_sphere(x, ptr, lengths), ptr)
        return torch.cat([lengths[:, None] * inside, lengths[:, None]], dim=1)


class Zeta0(Alpha0):
    """φ(X) = ζ₀(X), the coefficients of Q(t) = Π_k (t − x_{k,1} − i·x_{k,2}): [n, 2] → R^{2N}.

    d = 2 only. Injective, not Lipschitz.
    """

    formula = "coefficients of Πₖ(t − xₖ₁ − i·xₖ₂)"
    dimension = "2N"
    cost = "N²"
    reference = "section 2.3"

    def __init__(self, in_channels: int, max_nodes: int) -> None:
        check_plane(type(self).__name__, in_channels)
        super().__init__(in_channels, max_nodes)

    def size(self, d: int, n: int) -> int:
        return 2 * n

    def encode(self, x: Tensor, ptr: Tensor) -> Tensor:
        return polynomial.complex_coefficients(x, ptr, self.max_nodes)


class Zeta1(Alpha1):
    """φ(X) = ζ₁(X) = (ζ₀(φ₀(‖X‖)X), ‖X‖): [n, 2] → R^{2N + 1}. d = 2 only. Injective, Lipschitz, not bi-Lipschitz."""

    formula = "(ζ₀(X·min(1, 1/‖X‖)), ‖X‖)"
    dimension = "2N + 1"
    cost = "N²"
    reference = "section 2.3"

    def __init__(self, in_channels: int, max_nodes: int) -> None:
        check_plane(type(self).__name__, in_channels)
        super().__init__(in_channels, max_nodes)

    def size(self, d: int, n: int) -> int:
        return 2 * n + 1

    def encode(self, x: Tensor, ptr: Tensor) -> Tensor:
        return polynomial.complex_coefficients(x, ptr, self.max_nodes)


def check_plane(name: str, d: int) -> None:
    if d != 2:
        raise ReadoutError(
            f"d is {d}; {name} takes d = 2 only, one complex number per row: use Alpha0 or Alpha1 for other d"
        )
