"""What every readout shares: the PyG call, the input checks, the facts.

A readout maps the node embeddings X [n, d] of each graph in a batch to one vector: x [n, d] with ptr [B+1] →
[B, m].

NaN policy: NaN and ±inf are refused. Sorting would move a NaN to a place that looks like data, and a sum
would hide which graph it came from. The check is one sum over x; only if that sum is not finite is every
entry looked at.
"""

from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

from permlab.readouts.errors import ReadoutError
from permlab.readouts.segments import flat_padded


class Readout(Aggregation):
    """φ: the rows of a graph, in any order, → R^m. A subclass states its facts and gives `pool`.

    The facts are about the map that φ induces on matrices of n rows modulo row permutations, with the metric
    d(X, Y) = min_Π ‖X − ΠY‖_F: inequality (1.2).
    """

    permutation_invariant: ClassVar[bool]
    injective: ClassVar[str]  # "yes", "almost everywhere", "no"
    lipschitz: ClassVar[bool]
    bi_lipschitz: ClassVar[bool]
    formula: ClassVar[str]
    dimension: ClassVar[str]  # m in terms of n, d, N
    cost: ClassVar[str]
    reference: ClassVar[str]

    in_channels: int
    out_channels: int
    max_nodes: int | None = None  # N, where the output has room for N rows only

    __call__ = torch.nn.Module.__call__  # PyG's answers a bad call in other words, before forward can

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        """x [n, d] with ptr [B+1] or an ascending index [n] → [B, m]. Without either, x is one graph.

        `max_num_elements` is PyG's hint for its own padding; nothing here needs it.
        """
        check_matrix(x, self.in_channels)
        if dim not in (-2, 0):
            raise ReadoutError(f"dim is {dim}; the rows of x [n, d] are pooled, so dim must be -2 or 0")
        if ptr is None:
            ptr = ptr_from_index(index, x, dim_size)
        elif dim_size is not None and dim_size != ptr.numel() - 1:
            raise ReadoutError(f"dim_size is {dim_size}, but ptr tells of {ptr.numel() - 1} graphs: leave dim_size out")
        check_ptr(ptr, x.size(0), self.max_nodes)
        return self.pool(x, ptr)

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        """x [n, d], ptr [B+1], both checked → [B, m]."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}"

    __repr__ = torch.nn.Module.__repr__


class RowReadout(Readout):
    """A readout whose output is n rows in a canonical order; `forward` pads them with zeros to N and
    flattens.
    """

    row_channels: int
    max_nodes: int

    def rows(self, x: Tensor, ptr: Tensor) -> Tensor:
        """x [n, d] → [n, k], graph by graph, not padded."""
        check_matrix(x, self.in_channels)
        check_ptr(ptr, x.size(0), self.max_nodes)
        return self.ordered(x, ptr)

    def ordered(self, x: Tensor, ptr: Tensor) -> Tensor:
        """`rows` of input that has been checked."""
        raise NotImplementedError

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        return flat_padded(self.ordered(x, ptr), ptr, self.max_nodes)


def check_matrix(x: Tensor, in_channels: int) -> None:
    """x is [n, in_channels], floating, finite."""
    if x.dim() != 2:
        raise ReadoutError(f"x has {x.dim()} dimensions, shape {list(x.shape)}; a readout takes x [n, {in_channels}]")
    if x.size(1) != in_channels:
        raise ReadoutError(
            f"x has {x.size(1)} columns, but the readout was built for d = {in_channels}: build it for d = {x.size(1)}"
        )
    if not x.is_floating_point():
        raise ReadoutError(f"x is {x.dtype}; a readout takes float32 or float64: x.float()")
    if not torch.isfinite(x.detach().sum()):  # a sum of finite entries may overflow: look closer before refusing
        bad = ~torch.isfinite(x)
        if bad.any():
            row, column = bad.nonzero()[0].tolist()
            value = x[row, column].item()
            raise ReadoutError(
                f"x[{row}, {column}] is {value}, one of {int(bad.sum())} entries that are not finite: "
                "readouts refuse NaN and inf"
            )


def check_ptr(ptr: Tensor, n: int, max_nodes: int | None) -> None:
    """ptr rises from 0 to n, and no graph has more than max_nodes rows."""
    if ptr.dim() != 1 or ptr.numel() == 0 or ptr.dtype != torch.int64:
        raise ReadoutError(f"ptr is {ptr.dtype} of shape {list(ptr.shape)}; it must be int64 [B + 1]")
    first, last = int(ptr[0]), int(ptr[-1])
    if first != 0 or last != n:
        raise ReadoutError(f"ptr goes from {first} to {last}, but x has {n} rows: it must go from 0 to {n}")
    if ptr.numel() == 1:
        return
    smallest, largest = (int(size) for size in ptr.diff().aminmax())
    if smallest < 0:
        raise ReadoutError(f"ptr falls by {-smallest} somewhere; it must ascend")
    if max_nodes is not None and largest > max_nodes:
        raise ReadoutError(
            f"a graph has {largest} nodes, but the readout was built for max_nodes = {max_nodes} at most"
        )


def ptr_from_index(index: Tensor | None, x: Tensor, dim_size: int | None) -> Tensor:
    """The graph of each row, ascending, [n] → ptr [B+1]. None: all rows are one graph."""
    n = x.size(0)
    if index is None:
        if dim_size not in (None, 1):
            raise ReadoutError(f"dim_size is {dim_size}, but without index or ptr there is one graph")
        return torch.tensor([0, n], device=x.device)
    if index.dim() != 1 or index.numel() != n or index.dtype != torch.int64:
        raise ReadoutError(
            f"index is {index.dtype} of shape {list(index.shape)}; it must be int64 [{n}], as x has {n} rows"
        )
    if n and bool((index[1:] < index[:-1]).any()):
        place = int((index[1:] < index[:-1]).nonzero()[0]) + 1
        raise ReadoutError(
            f"index is not sorted: index[{place}] = {int(index[place])} comes after {int(index[place - 1])}; "
            "sort the rows by graph first (order = index.argsort(stable=True))"
        )
    if n and int(index[0]) < 0:
        raise ReadoutError(f"index[0] is {int(index[0])}; graphs are numbered from 0")
    found = int(index[-1]) + 1 if n else 0
    graphs = found if dim_size is None else dim_size
    if graphs < found:
        raise ReadoutError(
            f"dim_size is {dim_size}, but index names graph {found - 1}: dim_size must be at least {found}"
        )
    counts = torch.bincount(index, minlength=graphs)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def check_size(name: str, value: object, least: int = 1) -> None:
    """A size given to a constructor is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ReadoutError(f"{name} is {value!r}; it must be an integer of at least {least}")
