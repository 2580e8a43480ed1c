"""Γ: graph convolution layers H ↦ σ(Â H W + b) on flat batches, Â·Z given."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from permlab.datasets.batch import GraphBatch
from permlab.readouts.segments import segment_sum
from permlab.tasks.hop import Hop, Step, neighbours, sums
from permlab.tasks.layer import Layer, Links, chain
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

    @property
    def _flat(self) -> list[Tensor]:
        """W, b of the first layer, W, b of the second, … To ask the lists themselves takes ten times as long."""
        pairs = zip(self.weights._parameters.values(), self.biases._parameters.values(), strict=True)
        return [parameter for pair in pairs for parameter in pair if parameter is not None]

    @property
    def last(self) -> tuple[Tensor, Tensor]:
        """The last layer's weight [hidden, d] and bias [d]."""
        weight, bias = self._flat[-2:]
        return weight, bias

    @property
    def linear_end(self) -> bool:
        """Whether Γ(X) = P W + b with the P of `links_before_last`."""
        return self.last_activation == "none" and not self.dropout

    def forward(self, batch: GraphBatch) -> Tensor:
        return self._run(self.links(batch))

    def links(self, batch: GraphBatch) -> Links:
        """Γ(X), [n, d]."""
        return self._links(batch, self._quotient(batch), len(self.layers))

    def links_summed(self, batch: GraphBatch) -> Links:
        """1ᵀΓ(X) of every graph, [B, d], without the last layer's rows: 1ᵀ(Â H W + 1bᵀ) = (1ᵀÂ H) W + n bᵀ.

        For a linear last layer only.
        """
        found, count = self._quotient(batch), len(self.layers) - 1
        step = sums(batch, weighted=count > 0)  # the first layer is given Â·Z
        if found is not None and count == 2:  # behind more layers than two there is a row a node
            step = _of_colours(step, found)
        return self._links(batch, found, count).then(self.layers[-1:], self.last, [step])

    def summed(self, batch: GraphBatch) -> Tensor:
        """The same, summed in double precision where no gradient is asked for: see `segment_sum`."""
        if torch.is_grad_enabled():
            return self._run(self.links_summed(batch))
        count = len(self.layers) - 1
        h, weights = self._run(self._links(batch, None, count)), sums(batch, weighted=count > 0).forth.value
        sizes = batch.ptr.diff()[:, None].to(h.dtype)
        return torch.addmm(sizes * self.biases[-1], segment_sum(h, batch.ptr, weights), self.weights[-1])

    def links_before_last(self, batch: GraphBatch) -> Links:
        """P with Γ(X) = σ(P W + b), W and b the last layer's: Â H, [n, hidden]. Without dropout only."""
        links = self.links(batch)
        if links.steps[-1] is None:  # the only layer is given Â·Z
            return Links(links.h, [], [], [])
        return links._replace(layers=[*links.layers[:-1], None], parameters=links.parameters[:-2])

    def _quotient(self, batch: GraphBatch) -> Quotient | None:
        """For the two layers in which equal rows stay equal; what is dropped at random makes them differ."""
        return quotient(batch) if len(self.layers) > 2 and not (self.dropout and self.training) else None

    def _links(self, batch: GraphBatch, found: Quotient | None, count: int) -> Links:
        """The first `count` layers."""
        whole = neighbours(batch)
        first, steps = batch.x, [None, *[whole] * (count - 1)]
        if found is not None:
            first, steps = found.x, [None, *found.steps, *[whole] * (count - 3)]
        return Links(first, list(self.layers[:count]), self._flat[: 2 * count], list(steps[:count]))

    def _run(self, links: Links) -> Tensor:
        """At one step, unless something is dropped between the layers."""
        if not self.dropout:
            return chain(links)
        h, layers, parameters, steps = links
        for i in range(len(layers)):
            h = nn.functional.dropout(h, self.dropout, self.training) if i else h
            h = chain(Links(h, layers[i : i + 1], parameters[2 * i : 2 * i + 2], steps[i : i + 1]))
        return h
