"""Sorted columns as functions of the rank: FSPool, PSWE, the Fourier sliced-Wasserstein embedding."""

import torch
from torch import Tensor, nn

from permlab.readouts.base import Readout
from permlab.readouts.checks import check_size, enough_outputs
from permlab.readouts.construct import weights_of
from permlab.readouts.filters import drawn, keep
from permlab.readouts.segment_sort import sort_rows
from permlab.readouts.segments import places, segment_sum


class FSPool(Readout):
    """φ(X)_j = Σ_i f_j((i−1)/(n−1)) · (↓X)_ij, f_j piecewise linear with knots 0, 1/K, …, 1: [n, d] → R^d, K = 20.

    Trainable: the values of f at its knots, `weight` [K + 1, d]. For n = 1 the rank is 0. Not injective: n·d numbers
    become d.
    """

    permutation_invariant = True
    injective = "no"
    lipschitz = True
    bi_lipschitz = False
    formula = "Σᵢ fⱼ((i−1)/(n−1))·(↓X)ᵢⱼ"
    dimension = "d"
    cost = "d·n·log n"
    reference = "arXiv 1906.02795"

    def __init__(self, in_channels: int, pieces: int = 20, seed: int = 0) -> None:
        check_size("in_channels", in_channels)
        check_size("pieces", pieces, most=100_000)
        check_size("seed", seed, least=0)
        super().__init__()
        self.in_channels = self.out_channels = in_channels
        self.pieces = pieces
        with weights_of(seed):
            self.weight = nn.Parameter(torch.randn(pieces + 1, in_channels))

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        graph, place = places(ptr, x.size(0))
        last = (ptr.diff() - 1).clamp(min=1).index_select(0, graph)
        position = self.pieces * place.to(x.dtype) / last
        left = position.floor().clamp(max=self.pieces - 1)
        knot, share = left.long(), (position - left)[:, None]
        f = (1 - share) * self.weight.index_select(0, knot) + share * self.weight.index_select(0, knot + 1)
        return segment_sum(f * sort_rows(x, ptr), ptr)


class PSWE(Readout):
    """φ(X)_ql = q-quantile of Xθ_l/‖θ_l‖ − r_ql, q = 0, 1/(M−1), …, 1, linearly interpolated between the sorted
    entries, l ∈ [L]: [n, d] → R^{M·L}, M = `ranks` = 10, L = `slices` = d + 1.

    Trainable: θ [d, L] and the reference r [M, L]. An empty graph has quantiles 0. On n ≤ M rows it is β_θ up to a
    linear map with an inverse, so injective if and only if the key θ is universal, as it is with L ≥ n(d−1) + 1 slices
    in general position; on n > M rows it is never injective.
    """

    permutation_invariant = True
    injective = "no"
    lipschitz = True
    bi_lipschitz = False
    formula = "↑(Xθ) at M ranks, minus a reference"
    dimension = "M·L"
    cost = "L·(n·log n + n·d)"
    reference = "Naderializadeh et al., NeurIPS 2021"

    def __init__(self, in_channels: int, slices: int | None = None, ranks: int = 10, seed: int = 0) -> None:
        check_size("in_channels", in_channels)
        L = in_channels + 1 if slices is None else slices
        check_size("slices", L, most=10_000)
        check_size("ranks", ranks, least=2, most=10_000)
        check_size("seed", seed, least=0)
        super().__init__()
        self.in_channels, self.out_channels, self.ranks = in_channels, ranks * L, ranks
        with weights_of(seed):
            self.slices = nn.Parameter(torch.randn(in_channels, L))
            self.reference_values = nn.Parameter(torch.randn(ranks, L).sort(dim=0).values)

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        ascending = -sort_rows(-(x @ (self.slices / self.slices.norm(dim=0))), ptr)
        padded = torch.cat([ascending, torch.zeros_like(self.slices[:1])])  # for empty graphs
        size = ptr.diff()[:, None]
        share = torch.linspace(0, 1, self.ranks, dtype=x.dtype, device=x.device)
        position = (size - 1).clamp(min=0) * share  # [B, M]
        left = position.floor().clamp(max=(size - 2).clamp(min=0)).long()
        weight = (position - left).flatten()[:, None]
        row = torch.where(size > 0, ptr[:-1, None] + left, x.size(0)).flatten()
        after = torch.where(size > 1, ptr[:-1, None] + left + 1, x.size(0)).flatten()
        quantiles = (1 - weight) * padded.index_select(0, row) + weight * padded.index_select(0, after)
        return quantiles.view(len(size), self.out_channels) - self.reference_values.flatten()


class FSW(Readout):
    """φ(X) = (n, Σ_i y_i · 2(1+ξ_k)/(πξ_k) · sin(πξ_k/n) · cos(πξ_k(2i−1)/n), k ∈ [m−1]), y = ↑(Xv_k): [n, d] → R^m,
    m = 2Nd + 2.

    A coefficient of the cosine transform of the quantile function, with v_k uniform on the sphere and frequency ξ_k of
    density (1+ξ)⁻². Almost all of them are injective and bi-Lipschitz with this m for n ≤ N rows; fewer outputs do not
    promise that. `trainable` trains v and ξ, from the same start.
    """

    permutation_invariant = True
    injective = "yes"
    lipschitz = True
    bi_lipschitz = True
    formula = "(n, cosine transform of ↑(Xvₖ) at ξₖ)"
    dimension = "2N·d + 2"
    cost = "m·(n·log n + n·d)"
    reference = "arXiv 2504.02544"
    slices: Tensor
    frequencies: Tensor

    def __init__(
        self, in_channels: int, max_nodes: int, out_channels: int | None = None, trainable: bool = False, seed: int = 0
    ) -> None:
        check_size("in_channels", in_channels)
        check_size("max_nodes", max_nodes)
        check_size("seed", seed, least=0)
        enough = 2 * max_nodes * in_channels + 2
        m = enough_outputs(f"fsw of N = {max_nodes} rows in d = {in_channels}", enough, out_channels)
        check_size("out_channels", m, least=2)
        super().__init__()
        self.in_channels, self.out_channels = in_channels, m
        if m < enough:
            self.injective, self.bi_lipschitz = "no", False
        v, normal = drawn(seed, (in_channels, m - 1), (m - 1,))
        uniform = torch.special.ndtr(normal).clamp(max=1 - 1e-6)
        keep(self, trainable, slices=v / v.norm(dim=0), frequencies=uniform / (1 - uniform))

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        frequencies, size = self.frequencies.to(x.dtype), ptr.diff().to(x.dtype)[:, None]
        descending = sort_rows(x @ self.slices.to(x.dtype), ptr)
        graph, place = places(ptr, x.size(0))
        n = size.index_select(0, graph)
        middle = 1 - (2 * place[:, None] + 1) / (2 * n)  # (2i − 1)/2n, as i = n − place
        total = segment_sum((2 * torch.pi * frequencies * middle).cos() * descending, ptr)
        n = size.clamp(min=1)
        scale = 2 * (1 + frequencies) / n * torch.sinc(frequencies / n)
        return torch.cat([size, scale * total], dim=1)
