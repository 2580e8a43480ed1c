"""The plain readouts of section 4: the identity, the sum, sort pooling."""

from torch import Tensor

from permlab.readouts.base import Readout, RowReadout
from permlab.readouts.checks import check_size
from permlab.readouts.segment_sort import rearrange_rows
from permlab.readouts.segments import segment_sum


class _OwnRows(RowReadout):
    """A readout whose rows are those of X in some order."""

    def __init__(self, in_channels: int, max_nodes: int) -> None:
        check_size("in_channels", in_channels)
        check_size("max_nodes", max_nodes)
        super().__init__()
        self.in_channels, self.max_nodes = in_channels, max_nodes
        self.row_channels = in_channels
        self.out_channels = max_nodes * in_channels


class Identity(_OwnRows):
    """φ(X) = X, zero-padded to N rows: [n, d] → R^{N·d}.

    Not permutation invariant, so it is not defined on the quotient. `augment` is this readout, trained on permuted
    copies.
    """

    permutation_invariant = False
    injective = "yes"
    lipschitz = False
    bi_lipschitz = False
    formula = "X"
    dimension = "N·d"
    cost = "n·d"
    reference = "section 4, 3 and 4"

    def rows(self, x: Tensor, ptr: Tensor) -> Tensor:
        return x


class Sum(Readout):
    """φ(X) = 1ᵀX: [n, d] → R^d, Lipschitz with constant √n.

    Not injective for n ≥ 2: moving two rows by v and −v changes nothing.
    """

    permutation_invariant = True
    injective = "no"
    lipschitz = True
    bi_lipschitz = False
    formula = "1ᵀX"
    dimension = "d"
    cost = "n·d"
    reference = "section 4, 5"

    def __init__(self, in_channels: int) -> None:
        check_size("in_channels", in_channels)
        super().__init__()
        self.in_channels = self.out_channels = in_channels

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        return segment_sum(x, ptr)


class SortPooling(_OwnRows):
    """φ(X) = ΠX with Π X(:, d) = ↓X(:, d), zero-padded to N rows: [n, d] → R^{N·d}.

    Ties in the last column are broken by the column before it, and so on: if ties kept the input order, the map would
    not be invariant. Injective, but not continuous for d ≥ 2: near a tie in the last column a small change swaps two
    rows.
    """

    permutation_invariant = True
    injective = "yes"
    lipschitz = False
    bi_lipschitz = False
    formula = "ΠX, Π sorts the last column"
    dimension = "N·d"
    cost = "n·log n + n·d"
    reference = "section 4, 6"

    def rows(self, x: Tensor, ptr: Tensor) -> Tensor:
        return rearrange_rows(x, ptr)
