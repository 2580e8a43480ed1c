"""The sorting embeddings of section 3: β_A(X) = ↓(XA), and β_{A,B} = B ∘ β_A."""

from typing import Any

import torch
from torch import Tensor

from permlab.readouts.base import Readout, RowReadout
from permlab.readouts.checks import as_matrix, check_size
from permlab.readouts.errors import ReadoutError
from permlab.readouts.segment_sort import sort_rows
from permlab.readouts.segments import flat_padded
from permlab.readouts.theory.keys import check_key, full_spark, gaussian, parse_key

MAX_WEIGHTS = 2**27  # of B: 512 MB in float32


def beta(X: Any, A: Any) -> Tensor:
    """β_A(X) = ↓(XA): one matrix X [n, d], key A [d, D] → [n, D], each column sorted descending."""
    X = as_matrix("X", X)
    A = check_key(A, X.size(1)).to(X)
    return (X @ A).sort(dim=0, descending=True).values


class Ordering(RowReadout):
    """φ(X) = β_A(X) = ↓(XA), zero-padded to N rows after sorting: [n, d] → R^{N·D}, key A [d, D] fixed.

    Key None is [I | 1], D = d + 1: Lipschitz with s₁(A), injective almost everywhere (Proposition 3.7), everywhere only
    for n = 1, d = 1 or n = d = 2, so not bi-Lipschitz. With a universal key it is injective and bi-Lipschitz (Theorem
    3.10); a full spark key with D ≥ n(d−1) + 1 columns is universal for n rows (`spark.enough_columns`). Each column is
    sorted on its own, so a row of the output is not the image of one node. A key may be given as text, as in `permlab
    certify`: "spark:15" has 15 columns.
    """

    permutation_invariant = True
    injective = "almost everywhere"
    lipschitz = True
    bi_lipschitz = False
    formula = "↓(XA)"
    dimension = "N·D"
    cost = "D·n·log n + n·d·D"
    reference = "(3.1), Theorems 3.9, 3.10"
    key: Tensor

    def __init__(self, in_channels: int, max_nodes: int, key: Any = None) -> None:
        check_size("in_channels", in_channels)
        check_size("max_nodes", max_nodes)
        words = "ones" if key is None else key
        checked = parse_key(words, in_channels, max_nodes) if isinstance(words, str) else check_key(key, in_channels)
        super().__init__()
        self.in_channels, self.max_nodes = in_channels, max_nodes
        self.register_buffer("key", checked.clone())
        self.row_channels = checked.size(1)
        self.appends_sum = key is None  # X [I | 1] is X and its row sums: no product needed
        self.out_channels = max_nodes * self.row_channels

    def rows(self, x: Tensor, ptr: Tensor) -> Tensor:
        return sort_rows(x, ptr, with_sum=True) if self.appends_sum else sort_rows(x @ self.key.to(x.dtype), ptr)


class ReducedOrdering(Readout):
    """φ(X) = β_{A,B}(X) = B(β_A(X)) with a generic linear B: R^{N×D} → R^m, m = 2Nd: Theorem 3.13. B fixed or trained.

    For a universal A and almost every B this is bi-Lipschitz. Key None is a generic A with D = 2d + 1, so universal for
    n ≤ 2d/(d−1) rows: any n for d = 1, n ≤ 4 for d = 2, n ≤ 3 for d = 3, n ≤ 2 beyond. B has 2Nd · ND entries, which
    suits small graphs; sizes above 2²⁷ entries are refused.
    """

    permutation_invariant = True
    injective = "almost everywhere"
    lipschitz = True
    bi_lipschitz = False
    formula = "B(↓(XA)), B generic"
    dimension = "2N·d"
    cost = "D·n·log n + 2N²·d·D"
    reference = "(3.18), Theorem 3.13"
    max_nodes: int
    key: Tensor
    weight: Tensor

    def __init__(
        self,
        in_channels: int,
        max_nodes: int,
        key: Any = None,
        out_channels: int | None = None,
        trainable: bool = False,
        seed: int = 0,
    ) -> None:
        check_size("in_channels", in_channels)
        check_size("max_nodes", max_nodes)
        check_size("seed", seed, least=0)
        m = 2 * max_nodes * in_channels if out_channels is None else out_channels
        check_size("out_channels", m)
        A = gaussian(in_channels, 2 * in_channels + 1, seed) if key is None else check_key(key, in_channels)
        flat = max_nodes * A.size(1)
        if m * flat > MAX_WEIGHTS:
            raise ReadoutError(
                f"B would be {m} × {flat}, {m * flat:,} numbers; the limit is {MAX_WEIGHTS:,}: "
                "use fewer max_nodes, a smaller d or key, or out_channels"
            )
        super().__init__()
        self.in_channels, self.max_nodes, self.out_channels = in_channels, max_nodes, m
        self.register_buffer("key", A.clone())
        generator = torch.Generator().manual_seed(seed)
        B = torch.randn(m, flat, generator=generator) / m**0.5
        if trainable:
            self.weight = torch.nn.Parameter(B)
        else:
            self.register_buffer("weight", B)

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        rows = sort_rows(x @ self.key.to(x.dtype), ptr)
        return flat_padded(rows, ptr, self.max_nodes) @ self.weight.to(x.dtype).T


class TrainedOrdering(Ordering):
    """φ(X) = ↓(XA), zero-padded to N rows, with a trained key A [d, D]: [n, d] → R^{N·D}, D = `columns` = d + 1.

    The key starts full spark (random unit columns); what is said of a key holds for any full spark one. With D = d + 1
    it is [I | a] up to a change of basis, so injective almost everywhere; with D ≥ n(d−1) + 1 columns it is injective
    and bi-Lipschitz on n rows.
    """

    formula = "↓(XA), A trained"
    reference = "(3.1), Proposition 3.7"

    def __init__(self, in_channels: int, max_nodes: int, columns: int | None = None, seed: int = 0) -> None:
        check_size("in_channels", in_channels)
        D = in_channels + 1 if columns is None else columns
        check_size("columns", D, least=in_channels, most=10_000)
        check_size("seed", seed, least=0)
        super().__init__(in_channels, max_nodes, full_spark(in_channels, D, seed))
        key = self.key.to(torch.get_default_dtype())
        del self.key
        self.key = torch.nn.Parameter(key)
        if D == in_channels > 1:
            self.injective = "no"
