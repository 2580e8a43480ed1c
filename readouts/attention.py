"""Readouts by attention, as PyG has them: the weights of the rows depend on the rows.

Not injective: continuous maps into fewer than n·d dimensions. Not Lipschitz: the softmax moves weight between rows that
lie arbitrarily far apart.
"""

from torch import nn
from torch_geometric.nn import aggr

from permlab.readouts.checks import check_size
from permlab.readouts.construct import weights_of
from permlab.readouts.errors import ReadoutError
from permlab.readouts.from_pyg import FromPyG, SizeBySize


class GatedAttention(FromPyG):
    """φ(X) = Σ_i p_i·(Vx_i + c), p = softmax(Xw): [n, d] → R^d. Trainable: V, c, w."""

    permutation_invariant = True
    injective = "no"
    lipschitz = False
    bi_lipschitz = False
    formula = "Σᵢ softmax(Xw)ᵢ (Vxᵢ + c)"
    dimension = "d"
    cost = "n·d²"
    reference = "arXiv 1904.12787; PyG AttentionalAggregation"

    def __init__(self, in_channels: int, seed: int = 0) -> None:
        check_size("in_channels", in_channels)
        check_size("seed", seed, least=0)
        with weights_of(seed):
            gate, values = nn.Linear(in_channels, 1, bias=False), nn.Linear(in_channels, in_channels)
        super().__init__(in_channels, in_channels, aggr.AttentionalAggregation(gate, values))


class _Transformer(SizeBySize):
    permutation_invariant = True
    injective = "no"
    lipschitz = False
    bi_lipschitz = False


class SetTransformer(_Transformer):
    """φ(X) = SAB(PMA_k(SAB(X))), MAB(Q, K) = H + max(HW + b, 0), H = Q + Attention(Q, K, K), SAB(X) = MAB(X, X),
    PMA_k(X) = MAB(S, max(XV + c, 0)) with k seeds S: [n, d] → R^{kd}, k = `seeds` = 1. Trainable.
    """

    formula = "SAB(PMAₖ(SAB(X)))"
    dimension = "k·d"
    cost = "n²·d + n·d², a call per size"
    reference = "arXiv 1810.00825; PyG SetTransformerAggregation"

    def __init__(self, in_channels: int, seeds: int = 1, heads: int = 1, seed: int = 0) -> None:
        check_size("seeds", seeds, most=1000)
        check_heads(in_channels, heads)
        check_size("seed", seed, least=0)
        with weights_of(seed):
            transformer = aggr.SetTransformerAggregation(in_channels, seeds, heads=heads)
        super().__init__(in_channels, seeds * in_channels, transformer)


class GraphMultisetTransformer(_Transformer):
    """φ(X) = PMA₁(SAB(PMA_k(X))), k = `seeds` = 4; MAB, SAB and PMA as in the set transformer: [n, d] → R^d. Trainable.

    PyG's pools the rows as they are, without the graph convolution of the paper.
    """

    formula = "PMA₁(SAB(PMAₖ(X)))"
    dimension = "d"
    cost = "k·n·d + n·d², a call per size"
    reference = "arXiv 2102.11533; PyG GraphMultisetTransformer"

    def __init__(self, in_channels: int, seeds: int = 4, heads: int = 1, seed: int = 0) -> None:
        check_size("seeds", seeds, most=1000)
        check_heads(in_channels, heads)
        check_size("seed", seed, least=0)
        with weights_of(seed):
            transformer = aggr.GraphMultisetTransformer(in_channels, seeds, heads=heads)
        super().__init__(in_channels, in_channels, transformer)


def check_heads(d: int, heads: int) -> None:
    check_size("in_channels", d, most=2000)
    check_size("heads", heads)
    if d % heads:
        raise ReadoutError(f"heads is {heads}; it must divide d = {d}")
