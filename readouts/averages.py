"""PyG's plain aggregations: each column of X is reduced to a few numbers. None is injective: where two columns are
permuted differently, nothing changes.
"""

import torch
from torch_geometric.nn import aggr

from permlab.readouts.checks import check_positive, check_size
from permlab.readouts.from_pyg import FromPyG


class _ByColumn(FromPyG):
    """One number per column."""

    permutation_invariant = True
    injective = "no"
    lipschitz = True
    bi_lipschitz = False
    dimension = "d"
    cost = "n·d"


class Mean(_ByColumn):
    """φ(X) = 1ᵀX/n: [n, d] → R^d, Lipschitz with constant 1/√n."""

    formula = "1ᵀX/n"
    reference = "PyG MeanAggregation"

    def __init__(self, in_channels: int) -> None:
        super().__init__(in_channels, in_channels, aggr.MeanAggregation())


class Max(_ByColumn):
    """φ(X)_j = max_i x_ij: [n, d] → R^d, Lipschitz with constant 1."""

    formula = "maxᵢ xᵢⱼ"
    reference = "PyG MaxAggregation"

    def __init__(self, in_channels: int) -> None:
        super().__init__(in_channels, in_channels, aggr.MaxAggregation())


class Min(_ByColumn):
    """φ(X)_j = min_i x_ij: [n, d] → R^d, Lipschitz with constant 1."""

    formula = "minᵢ xᵢⱼ"
    reference = "PyG MinAggregation"

    def __init__(self, in_channels: int) -> None:
        super().__init__(in_channels, in_channels, aggr.MinAggregation())


class Std(_ByColumn):
    """φ(X)_j = sd_i x_ij, or 0 where the variance is at most 10⁻⁵: [n, d] → R^d.

    The standard deviation is Lipschitz with constant 1/√n, but PyG cuts it off where its gradient would grow: a jump of
    0.0032.
    """

    lipschitz = False
    formula = "sdᵢ xᵢⱼ, or 0 if sd² ≤ 10⁻⁵"
    reference = "PyG StdAggregation"

    def __init__(self, in_channels: int) -> None:
        super().__init__(in_channels, in_channels, aggr.StdAggregation())


class Softmax(_ByColumn):
    """φ(X)_j = Σ_i p_ij x_ij, p_ij = exp(t_j x_ij)/Σ_k exp(t_j x_kj): [n, d] → R^d. Trainable: t, from 1.

    Between the mean (t = 0) and the maximum (t → ∞). Lipschitz for every t: a column weighs itself, so a weight that
    moves far belongs to an entry that is far below the others, and is small.
    """

    formula = "Σᵢ softmax(t·X)ᵢⱼ xᵢⱼ"
    reference = "arXiv 2006.07739; PyG SoftmaxAggregation"

    def __init__(self, in_channels: int, t: float = 1.0, learn: bool = True) -> None:
        check_positive("t", t)
        check_size("in_channels", in_channels)
        channels = in_channels if learn else 1
        super().__init__(in_channels, in_channels, aggr.SoftmaxAggregation(t, learn, channels=channels))


class PowerMean(_ByColumn):
    """φ(X)_j = (Σ_i c(x_ij)^p / n)^{1/p}, c(t) = min(max(t, 10⁻⁴), 100), the mean of powers clamped by c too:
    [n, d] → R^d.

    p = 2; `learn` trains a p for each column, from 2. It sees no entry below 10⁻⁴.
    """

    formula = "(Σᵢ c(xᵢⱼ)ᵖ/n)^(1/p), c clamps to [10⁻⁴, 100]"
    reference = "arXiv 2006.07739; PyG PowerMeanAggregation"

    def __init__(self, in_channels: int, p: float = 2.0, learn: bool = False) -> None:
        check_positive("p", p)
        check_size("in_channels", in_channels)
        channels = in_channels if learn else 1
        super().__init__(in_channels, in_channels, aggr.PowerMeanAggregation(p, learn, channels))


class VariancePreserving(_ByColumn):
    """φ(X) = 1ᵀX/√n: [n, d] → R^d, Lipschitz with constant 1: the variance of independent entries stays."""

    formula = "1ᵀX/√n"
    reference = "arXiv 2403.04747; PyG VariancePreservingAggregation"

    def __init__(self, in_channels: int) -> None:
        super().__init__(in_channels, in_channels, aggr.VariancePreservingAggregation())


class MultiAggregation(FromPyG):
    """φ(X) = (mean, max, min, sd of each column) ⊗ (1, s, 1/s), s = log(n+1)/log(N+1): [n, d] → R^{12d}.

    Principal neighbourhood aggregation of a whole graph: the scalers know its n nodes, and no histogram of degrees. The
    standard deviation is PyG's, which jumps by 0.0032 where it is small.
    """

    permutation_invariant = True
    injective = "no"
    lipschitz = False
    bi_lipschitz = False
    formula = "(mean, max, min, sd) ⊗ (1, s, 1/s), s = log(n+1)/log(N+1)"
    dimension = "12d"
    cost = "n·d"
    reference = "arXiv 2004.05718; PyG DegreeScalerAggregation"

    def __init__(self, in_channels: int, max_nodes: int) -> None:
        check_size("in_channels", in_channels)
        check_size("max_nodes", max_nodes, most=10_000_000)
        every_degree_is_n = torch.bincount(torch.tensor([max_nodes]))  # a histogram; its mean log(degree + 1) scales
        scaled = aggr.DegreeScalerAggregation(
            ["mean", "max", "min", "std"], ["identity", "amplification", "attenuation"], every_degree_is_n
        )
        super().__init__(in_channels, 12 * in_channels, scaled)
