"""Sums over neighbours: products with Â, and with what is left of it where equal rows are taken together."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from permlab.datasets.batch import GraphBatch
from permlab.readouts.segments import bag


class Hop(NamedTuple):
    """A sparse matrix [m, n] as CSR; without values its entries are ones."""

    ptr: Tensor  # [m + 1]
    column: Tensor  # [entries]
    value: Tensor | None = None  # [entries]

    def __call__(self, h: Tensor) -> Tensor:
        """For every row the weighted sum of rows of h: [n, k] → [m, k]; no gradient.

        An embedding bag is that sum, and three times as fast as a product with a sparse CSR tensor.
        """
        return bag(h, self.column, self.ptr, self.value)


class Step(NamedTuple):
    """H ↦ A H, and the gradient of it, Aᵀ G, as one product after the other."""

    forth: Hop
    back: tuple[Hop, ...]


def neighbours(batch: GraphBatch) -> Step:
    """Â of a batch, which is symmetric."""
    whole = Hop(batch.a_ptr, batch.a_column, batch.a_value)
    return Step(whole, (whole,))


def through(hops: Sequence[Hop], h: Tensor) -> Tensor:
    """One product after the other."""
    for hop in hops:
        h = hop(h)
    return h
