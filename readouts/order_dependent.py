"""Maps that depend on the order of the rows: positive controls for every test of invariance. They are not defined on
the quotient.
"""

from torch_geometric.nn import aggr

from permlab.readouts.checks import check_size
from permlab.readouts.construct import weights_of
from permlab.readouts.errors import ReadoutError
from permlab.readouts.from_pyg import FromPyG, SizeBySize

MOST_INPUTS = 1_000_000  # of the MLP


class _Recurrent(SizeBySize):
    permutation_invariant = False
    injective = "no"
    lipschitz = False
    bi_lipschitz = False
    dimension = "d"
    cost = "n·d², row by row, a call per size"


class GRU(_Recurrent):
    """φ(X) = the last state of a GRU that reads x_1, …, x_n: [n, d] → R^d. Trainable."""

    formula = "GRU(x₁, …, xₙ)"
    reference = "arXiv 2211.04952; PyG GRUAggregation"

    def __init__(self, in_channels: int, seed: int = 0) -> None:
        check_size("in_channels", in_channels, most=2000)
        check_size("seed", seed, least=0)
        with weights_of(seed):
            super().__init__(in_channels, in_channels, aggr.GRUAggregation(in_channels, in_channels))


class LSTM(_Recurrent):
    """φ(X) = the last hidden state of an LSTM that reads x_1, …, x_n: [n, d] → R^d. Trainable."""

    formula = "LSTM(x₁, …, xₙ)"
    reference = "arXiv 1706.02216; PyG LSTMAggregation"

    def __init__(self, in_channels: int, seed: int = 0) -> None:
        check_size("in_channels", in_channels, most=2000)
        check_size("seed", seed, least=0)
        with weights_of(seed):
            super().__init__(in_channels, in_channels, aggr.LSTMAggregation(in_channels, in_channels))


class MLP(FromPyG):
    """φ(X) = W₂ max(W₁ vec(X) + b₁, 0) + b₂, X zero-padded to N rows: [n, d] → R^d, 64 hidden units. Trainable.

    PyG's padding waits for the device.
    """

    permutation_invariant = False
    injective = "no"
    lipschitz = False
    bi_lipschitz = False
    formula = "W₂ max(W₁ vec(X) + b₁, 0) + b₂"
    dimension = "d"
    cost = "N·d·64"
    reference = "arXiv 2211.04952; PyG MLPAggregation"

    def __init__(self, in_channels: int, max_nodes: int, hidden: int = 64, seed: int = 0) -> None:
        for name, value in (("in_channels", in_channels), ("max_nodes", max_nodes), ("hidden", hidden)):
            check_size(name, value)
        check_size("seed", seed, least=0)
        if max_nodes * in_channels > MOST_INPUTS:
            raise ReadoutError(
                f"mlp of N = {max_nodes} rows in d = {in_channels} would have {max_nodes * in_channels:,} inputs; "
                f"the limit is {MOST_INPUTS:,}"
            )
        with weights_of(seed):
            padded = aggr.MLPAggregation(
                in_channels, in_channels, max_nodes, hidden_channels=hidden, num_layers=2, norm=None
            )
        super().__init__(in_channels, in_channels, padded)
        self.max_nodes = max_nodes
