"""What every readout shares: the PyG call, the input checks, the facts.

A readout maps the node embeddings X [n, d] of each graph in a batch to one vector: x [n, d] with ptr [B+1] → [B, m].
"""

from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

from permlab.readouts.checks import check_finite, check_ptr, check_shape, ptr_from_index
from permlab.readouts.errors import ReadoutError
from permlab.readouts.segments import flat_padded, segment_ids

FACTS = ("permutation_invariant", "injective", "lipschitz", "bi_lipschitz")


class Readout(Aggregation):
    """φ: the rows of a graph, in any order, → R^m. A subclass states its facts and implements `pool`.

    The facts are about the map that φ induces on matrices of n rows modulo row permutations, with the metric d(X, Y) =
    min_Π ‖X − ΠY‖_F: inequality (1.2). The class states them for its default options; an object with other options may
    state less.
    """

    permutation_invariant: ClassVar[bool]
    injective: str  # "yes", "almost everywhere", "no": also where no theorem says more
    lipschitz: ClassVar[bool]
    bi_lipschitz: bool
    formula: ClassVar[str]
    dimension: ClassVar[str]  # m in terms of n, d, N
    cost: ClassVar[str]
    reference: ClassVar[str]

    in_channels: int
    out_channels: int
    max_nodes: int | None = None  # N, where the output has room for N rows only
    validate: bool = True  # check the values of x and ptr, which waits for the device; shapes are always checked

    __call__ = torch.nn.Module.__call__  # bypass PyG's own checks: ours give clearer messages

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
        return self.pool(x, self._checked(x, index, ptr, dim_size, dim))

    def _checked(self, x: Tensor, index: Tensor | None, ptr: Tensor | None, dim_size: int | None, dim: int) -> Tensor:
        """ptr [B+1], or a ReadoutError."""
        check_shape(x, self.in_channels)
        if dim not in (-2, 0):
            raise ReadoutError(f"dim is {dim}; the rows of x [n, d] are pooled, so dim must be -2 or 0")
        if self.validate:
            check_finite(x)
        if ptr is None:
            ptr = ptr_from_index(index, x, dim_size)
        elif dim_size is not None and dim_size != ptr.numel() - 1:
            raise ReadoutError(f"dim_size is {dim_size}, but ptr names {ptr.numel() - 1} graphs: leave dim_size out")
        if self.validate:
            check_ptr(ptr, x.size(0), self.max_nodes)
        return ptr

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        """x [n, d], ptr [B+1], both checked → [B, m]."""
        raise NotImplementedError

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Keys and centres are in double precision; on a device without it (MPS) they are rounded."""

        def rounded(tensor: Tensor) -> Tensor:
            try:
                return fn(tensor)
            except TypeError:
                if tensor.dtype != torch.float64:
                    raise
                return fn(tensor.float())

        moved: Self = super()._apply(rounded, recurse)
        return moved

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}"

    __repr__ = torch.nn.Module.__repr__


class RowReadout(Readout):
    """A readout whose output is n rows in a canonical order; `forward` pads them with zeros to N and flattens.

    A subclass implements `rows`. With `padded=False`, `forward` returns the rows unpadded, as a ragged layer takes
    them.
    """

    row_channels: int
    max_nodes: int

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
        padded: bool = True,
    ) -> Tensor:
        """x [n, d] → [B, N·k], or [n, k] with `padded=False`."""
        ptr = self._checked(x, index, ptr, dim_size, dim)
        return self.pool(x, ptr) if padded else self.rows(x, ptr)

    def rows(self, x: Tensor, ptr: Tensor) -> Tensor:
        """x [n, d], ptr [B+1], both checked → [n, k], graph by graph, not padded."""
        raise NotImplementedError

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        return flat_padded(self.rows(x, ptr), ptr, self.max_nodes)


def gives_rows(readout: torch.nn.Module) -> bool:
    """Whether `padded=False` gives the same rows that are padded: not if a subclass overrides `pool` or `forward`."""
    if not isinstance(readout, RowReadout):
        return False
    return type(readout).pool is RowReadout.pool and type(readout).forward is RowReadout.forward


def pooled(readout: Aggregation, x: Tensor, ptr: Tensor, graph: Tensor | None = None) -> Tensor:
    """φ of every graph by anybody's aggregation: x [n, d], ptr [B+1] → [B, m]. `graph` [n], if it is at hand, is the
    graph of every row: PyG's aggregations take it instead of ptr.
    """
    image: Tensor
    if isinstance(readout, Readout):
        image = readout(x, ptr=ptr)
    else:
        image = readout(x, segment_ids(ptr, x.size(0)) if graph is None else graph, dim_size=ptr.numel() - 1)
    return image


def sizes_of(readout: Aggregation) -> tuple[int, int]:
    """d and m: what `catalogue.build` found out, or what the readout itself says."""
    made: Any = readout
    d, m = getattr(made, "permlab_sizes", None) or (made.in_channels, made.out_channels)
    return int(d), int(m)


def stated_facts(readout: Aggregation | type[Aggregation]) -> dict[str, Any]:
    """The facts that the readout's class states; those of other people's aggregations are not known."""
    return {name: getattr(readout, name) for name in FACTS if hasattr(readout, name)}
