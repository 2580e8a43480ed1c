"""The kernel family of section 2: α(X)_y = Σ_k K(x_k; y), a sum over the nodes of finitely many test functions.

The paper's (2.1) divides by n, its section 4 does not; `mean=True` divides.
"""

import torch
from torch import Tensor

from permlab.readouts.base import Readout
from permlab.readouts.checks import check_positive, check_size
from permlab.readouts.errors import ReadoutError
from permlab.readouts.polynomial import monomials
from permlab.readouts.segments import segment_sum


def unit_rows(x: Tensor) -> Tensor:
    """x [n, d] with every row scaled to length 1; a zero row stays zero."""
    square = x.square().sum(1, keepdim=True)
    return x / torch.where(square > 0, square, 1).sqrt()


class _KernelSum(Readout):
    """Σ_k K(x_k; y) for y in a finite set; a subclass implements `features`, [n, d] → [n, m]."""

    permutation_invariant = True
    bi_lipschitz = False

    def __init__(self, in_channels: int, out_channels: int, mean: bool) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.mean = in_channels, out_channels, mean

    def features(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        total = segment_sum(self.features(x), ptr)
        return total / ptr.diff().clamp(min=1)[:, None] if self.mean else total


class GaussianKernels(_KernelSum):
    """φ(X)_j = Σ_k exp(−‖x_k − a_j‖²/σ²), j ∈ [m]: [n, d] → R^m. Kernel vectors: seeded normal, scaled to length 1.

    The paper does not give m; 100 here. As in section 4 every node is first scaled to length 1 (a zero row stays 0):
    that loses the lengths, so the map is not injective, and it is not continuous where a row is 0. With normalise=False
    it is Lipschitz. For d = 1 there are two unit vectors, so at most two distinct outputs.
    """

    injective = "no"
    lipschitz = False
    formula = "Σₖ exp(−‖xₖ/‖xₖ‖ − aⱼ‖²)"
    dimension = "m"
    cost = "n·d·m"
    reference = "section 2.1; section 4, 2"
    centres: Tensor

    def __init__(
        self,
        in_channels: int,
        kernels: int = 100,
        sigma: float = 1.0,
        normalise: bool = True,
        mean: bool = False,
        seed: int = 0,
    ) -> None:
        check_size("in_channels", in_channels)
        check_size("kernels", kernels, most=100_000)
        check_size("seed", seed, least=0)
        check_positive("sigma", sigma)
        super().__init__(in_channels, kernels, mean)
        self.sigma, self.normalise = sigma, normalise
        drawn = torch.randn(kernels, in_channels, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        self.register_buffer("centres", unit_rows(drawn))

    def features(self, x: Tensor) -> Tensor:
        """exp(2⟨u, a⟩/σ² − ‖u‖²/σ² − ‖a‖²/σ²): [n, d] → [n, m], u the rows of x, normalised if `normalise`."""
        u, centres, scale = unit_rows(x) if self.normalise else x, self.centres.to(x.dtype), 1 / self.sigma**2
        inner = torch.addmm(-scale * centres.square().sum(1), u, 2 * scale * centres.T)
        return (inner - scale * u.square().sum(1, keepdim=True)).clamp(max=0).exp()


class FourierKernels(_KernelSum):
    """φ(X) = (Re, Im) of Σ_k exp(2πi⟨x_k, y_j⟩), j ∈ [m/2]: [n, d] → R^m. Frequencies: seeded normal, times `scale`.

    Lipschitz. Not injective for any n: the frequencies are floats, multiples of some 2^−k, so adding 2^k to an entry of
    X changes nothing. If n·d > m, no choice of frequencies is injective: a continuous map into fewer dimensions never
    is. Otherwise 2nd + 1 generic real ones would suffice (arXiv 2306.06529).
    """

    injective = "no"
    lipschitz = True
    formula = "Σₖ exp(2πi⟨xₖ, yⱼ⟩)"
    dimension = "2·kernels"
    cost = "n·d·m"
    reference = "section 2.1"
    frequencies: Tensor

    def __init__(
        self, in_channels: int, kernels: int = 50, scale: float = 0.25, mean: bool = False, seed: int = 0
    ) -> None:
        check_size("in_channels", in_channels)
        check_size("kernels", kernels, most=100_000)
        check_size("seed", seed, least=0)
        check_positive("scale", scale)
        super().__init__(in_channels, 2 * kernels, mean)
        drawn = torch.randn(kernels, in_channels, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        self.register_buffer("frequencies", scale * drawn)

    def features(self, x: Tensor) -> Tensor:
        phase = 2 * torch.pi * x @ self.frequencies.to(x.dtype).T
        return torch.cat([phase.cos(), phase.sin()], dim=1)


class PolynomialKernels(_KernelSum):
    """φ(X)_y = Σ_k x_{k,1}^{y_1} ⋯ x_{k,d}^{y_d} over 1 ≤ |y| ≤ N: [n, d] → R^m, m = C(N + d, d) − 1.

    N is `max_nodes`: the power sums of N vectors are injective for n ≤ N, and larger graphs are refused. Not
    Lipschitz: it grows like ‖X‖^N, and the lower bound is 0.
    """

    injective = "yes"
    lipschitz = False
    formula = "Σₖ xₖ^y, 1 ≤ |y| ≤ N"
    dimension = "C(N+d, d) − 1"
    cost = "n·d·m"
    reference = "section 2.1"
    max_nodes: int
    exponents: Tensor

    def __init__(self, in_channels: int, max_nodes: int, mean: bool = False) -> None:
        check_size("in_channels", in_channels)
        check_size("max_nodes", max_nodes)
        exponents = monomials(in_channels, max_nodes)
        super().__init__(in_channels, len(exponents), mean)
        self.max_nodes = max_nodes
        self.register_buffer("exponents", torch.tensor(exponents))

    def features(self, x: Tensor) -> Tensor:
        powers = [torch.ones_like(x)]
        for _ in range(self.max_nodes):
            powers.append(powers[-1] * x)
        table = torch.stack(powers)  # [N + 1, n, d]
        value = torch.ones_like(x[:, :1])
        for column in range(self.in_channels):
            value = value * table[self.exponents[:, column], :, column].T
        return value


class PowerSums(PolynomialKernels):
    """φ(x)_j = Σ_k x_k^j, j = 1 … N: [n, 1] → R^N, (1.4). d = 1 only, n ≤ N. Injective, not Lipschitz."""

    formula = "Σₖ xₖʲ, j = 1 … N"
    dimension = "N"
    cost = "n·N"
    reference = "(1.4)"

    def __init__(self, in_channels: int, max_nodes: int, mean: bool = False) -> None:
        if in_channels != 1:
            raise ReadoutError(f"d is {in_channels}; power_sums takes d = 1: use polynomial for other d")
        super().__init__(in_channels, max_nodes, mean)
