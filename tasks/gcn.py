"""Γ: graph convolution layers H ↦ σ(Â H W + b) on flat batches, Â·Z given."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from permlab.datasets.batch import GraphBatch
from permlab.readouts.segments import segment_sum
from permlab.tasks.hop import Hop, Step, neighbours, sums
from permlab.tasks.layer import Layer, chain
from permlab.tasks.quotient import Quotient, quotient


def _of_colours(step: Step, found: Quotient) -> Step:
    """The same sums, where equal rows were taken together: Σ_i w_i h_{colour i}."""
    (back,), nodes = step.back, found.nodes.column
    weights = None if back.value is None else back.value.index_select(0, nodes)
    gathered = Hop(found.nodes.ptr, back.column.index_select(0, nodes), weights)
    return Step(step.forth._replace(column=found.colour), (gathered,), step.sizes)


class GCN(nn.Module):
    """r → hidden → … → d: `layers` layers of H ↦ σ(Â H W + b), GraphBatch → [n, d].

    The paper writes σ on every layer; by default the last one is linear (`last_activation="none"`), because with
    ReLU on the last layer d = 1 dies. The first layer takes the batch's Â·Z; the others multiply by W before or
    after Â, whichever is narrower.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        layers: int = 3,
        activation: str = "relu",
        last_activation: str = "none",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        widths = [in_channels, *[hidden_channels] * (layers - 1), out_channels]
        self.weights = nn.ParameterList(torch.empty(a, b) for a, b in pairwise(widths))
        self.biases = nn.ParameterList(torch.zeros(width) for width in widths[1:])
        for weight in self.weights:
            nn.init.xavier_uniform_(weight)  # as PyG's GCNConv
        activations = [*[activation] * (layers - 1), last_activation]
        self.layers = [Layer(each) for each in activations]
        self.last_activation, self.dropout = last_activation, dropout
        # W, b of the first layer, W, b of the second, …: to ask the lists at every step takes ten times as long.
        self._flat: list[Tensor] = [each for pair in zip(self.weights, self.biases, strict=True) for each in pair]

    @property
    def last(self) -> tuple[Tensor, Tensor]:
        """The last layer's weight [hidden, d] and bias [d]."""
        return self._flat[-2], self._flat[-1]

    @property
    def linear_end(self) -> bool:
        """Whether Γ(X) = P W + b with `before_last`'s P."""
        return self.last_activation == "none" and not self.dropout

    def forward(self, batch: GraphBatch) -> Tensor:
        return self._layers(batch, self._quotient(batch), len(self.layers))

    def summed(self, batch: GraphBatch) -> Tensor:
        """1ᵀΓ(X) of every graph, [B, d], without the last layer's rows: 1ᵀ(Â H W + 1bᵀ) = (1ᵀÂ H) W + n bᵀ.

        For a linear last layer only.
        """
        found, count = self._quotient(batch), len(self.layers) - 1
        merged = found if count == 2 else None  # behind more layers than two there is a row a node
        step = sums(batch, weighted=count > 0)  # the first layer is given Â·Z
        if torch.is_grad_enabled():
            return self._layers(batch, found, count, [_of_colours(step, merged) if merged else step])
        h = self._layers(batch, found, count)
        rows, sizes = h if merged is None else h.index_select(0, merged.colour), batch.ptr.diff()[:, None].to(h.dtype)
        total = segment_sum(rows, batch.ptr, step.forth.value)
        return torch.addmm(sizes * self.biases[-1], total, self.weights[-1])

    def before_last(self, batch: GraphBatch) -> Tensor:
        """P with Γ(X) = σ(P W + b), W and b the last layer's: Â H, [n, hidden]. Without dropout only."""
        found, count = self._quotient(batch), len(self.layers)
        h, steps = self._start(batch, found, count)
        return chain(h, self.layers[:-1], self._flat[:-2], steps) if count > 1 else h

    def _quotient(self, batch: GraphBatch) -> Quotient | None:
        """For the two layers in which equal rows stay equal; what is dropped at random makes them differ."""
        return quotient(batch) if len(self.layers) > 2 and not (self.dropout and self.training) else None

    def _layers(self, batch: GraphBatch, found: Quotient | None, count: int, more: Sequence[Step] = ()) -> Tensor:
        """The first `count` layers and those of `more` steps: at one step, unless something is dropped between them."""
        h, steps = self._start(batch, found, count)
        parameters, steps, count = self._flat, [*steps, *more], count + len(more)
        if not self.dropout:
            return chain(h, self.layers[:count], parameters[: 2 * count], steps) if count else h
        for i in range(count):
            h = nn.functional.dropout(h, self.dropout, self.training) if i else h
            h = chain(h, self.layers[i : i + 1], parameters[2 * i : 2 * i + 2], steps[i : i + 1])
        return h

    def _start(self, batch: GraphBatch, found: Quotient | None, count: int) -> tuple[Tensor, list[Step | None]]:
        """What goes into the first layer, and the steps of the first `count`."""
        whole = neighbours(batch)
        if found is None:
            return batch.x, [None, *[whole] * (count - 1)][:count]
        return found.x, [None, *found.steps, *[whole] * (count - 3)][:count]
