"""Sums over the nodes of learned functions, and of products."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import aggr
from torch_geometric.utils import scatter

from permlab.readouts.base import Readout
from permlab.readouts.checks import check_size, enough_outputs
from permlab.readouts.construct import weights_of
from permlab.readouts.from_pyg import FromPyG
from permlab.readouts.segments import segment_ids, segment_sum


class DeepSets(FromPyG):
    """φ(X) = Σ_i tanh(Wx_i + b): [n, d] → R^m, m = 2Nd + 1. Trainable: W, b.

    tanh is analytic and no polynomial: with this m, almost every (W, b) is injective for n ≤ N rows; fewer outputs do
    not promise that. Lipschitz, never bi-Lipschitz: near equal rows the differences are of second order.
    """

    permutation_invariant = True
    injective = "yes"
    lipschitz = True
    bi_lipschitz = False
    formula = "Σᵢ tanh(Wxᵢ + b)"
    dimension = "2N·d + 1"
    cost = "n·d·m"
    reference = "arXiv 2306.06529; PyG DeepSetsAggregation"

    def __init__(self, in_channels: int, max_nodes: int, out_channels: int | None = None, seed: int = 0) -> None:
        check_size("in_channels", in_channels)
        check_size("max_nodes", max_nodes)
        enough = 2 * max_nodes * in_channels + 1
        m = enough_outputs(f"deepsets of N = {max_nodes} rows in d = {in_channels}", enough, out_channels)
        super().__init__(in_channels, m, _sum_of(in_channels, m, nn.Tanh(), seed))
        if m < enough:
            self.injective = "no"


class DeepSetsReLU(FromPyG):
    """φ(X) = Σ_i max(Wx_i + b, 0): [n, d] → R^m, m = 100. Trainable: W, b.

    Not injective for any m: two rows in one linear piece of x ↦ max(Wx + b, 0) may move by v and −v.
    """

    permutation_invariant = True
    injective = "no"
    lipschitz = True
    bi_lipschitz = False
    formula = "Σᵢ max(Wxᵢ + b, 0)"
    dimension = "m"
    cost = "n·d·m"
    reference = "arXiv 2306.06529; PyG DeepSetsAggregation"

    def __init__(self, in_channels: int, out_channels: int = 100, seed: int = 0) -> None:
        check_size("in_channels", in_channels)
        check_size("out_channels", out_channels, most=100_000)
        super().__init__(in_channels, out_channels, _sum_of(in_channels, out_channels, nn.ReLU(), seed))


def _sum_of(d: int, m: int, activation: nn.Module, seed: int) -> aggr.DeepSetsAggregation:
    check_size("seed", seed, least=0)
    with weights_of(seed):
        return aggr.DeepSetsAggregation(local_nn=nn.Sequential(nn.Linear(d, m), activation))


class SecondMoments(Readout):
    """φ(X) = (1ᵀX, the entries of XᵀX on and above the diagonal): [n, d] → R^{d + d(d+1)/2}.

    Not injective for n ≥ 3: an orthogonal matrix that fixes 1 changes nothing. Not Lipschitz: it grows like ‖X‖².
    """

    permutation_invariant = True
    injective = "no"
    lipschitz = False
    bi_lipschitz = False
    formula = "(1ᵀX, XᵀX)"
    dimension = "d + d(d+1)/2"
    cost = "n·d²"
    reference = "arXiv 2007.10467"

    def __init__(self, in_channels: int) -> None:
        check_size("in_channels", in_channels, most=1000)
        super().__init__()
        self.in_channels, self.out_channels = in_channels, in_channels + in_channels * (in_channels + 1) // 2

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        products = [x[:, j, None] * x[:, j:] for j in range(x.size(1))]
        return segment_sum(torch.cat([x, *products], dim=1), ptr)


class AdaptiveReLU(Readout):
    """φ(X)_k = ⟨w_k, (n, l, h, Σ_i max(z_i − t_k·h − (1 − t_k)·l, 0), Σ_i z_i)⟩, z = Xa_k, l = min z, h = max z:
    [n, d] → R^m, m = 100. Trainable: a, t, w; t starts in (0, 1).

    The kink lies where the graph's own numbers are. Not injective: rows inside the convex hull of the others, between
    the m kinks, may move by v and −v.
    """

    permutation_invariant = True
    injective = "no"
    lipschitz = True
    bi_lipschitz = False
    formula = "wₖ·(n, min z, max z, Σᵢ max(zᵢ − tₖ·max z − (1−tₖ)·min z, 0), Σz), z = Xaₖ"
    dimension = "m"
    cost = "n·d·m"
    reference = "arXiv 2406.06984"

    def __init__(self, in_channels: int, out_channels: int = 100, seed: int = 0) -> None:
        check_size("in_channels", in_channels)
        check_size("out_channels", out_channels, most=100_000)
        check_size("seed", seed, least=0)
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        with weights_of(seed):
            self.directions = nn.Parameter(torch.randn(in_channels, out_channels) / in_channels**0.5)
            self.t = nn.Parameter(torch.rand(out_channels))
            self.weight = nn.Parameter(torch.randn(5, out_channels) / 5**0.5)

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        z, graphs, graph = x @ self.directions, ptr.numel() - 1, segment_ids(ptr, x.size(0))
        low, high = (scatter(z, graph, 0, graphs, reduce=end) for end in ("min", "max"))
        kink = self.t * high + (1 - self.t) * low
        above = segment_sum((z - kink.index_select(0, graph)).relu(), ptr)
        size = ptr.diff().to(x.dtype)[:, None].expand(-1, z.size(1))
        numbers = torch.stack([size, low, high, above, segment_sum(z, ptr)], dim=1)  # [B, 5, m]
        return (self.weight * numbers).sum(1)
