"""One number per template: γ_{A,B}, and the max filter ⟨⟨X, Z⟩⟩ = max_Π ⟨ΠX, Z⟩."""

from itertools import pairwise

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from permlab.readouts.base import Readout
from permlab.readouts.checks import check_size, enough_outputs
from permlab.readouts.errors import ReadoutError
from permlab.readouts.segment_sort import sort_rows
from permlab.readouts.segments import places, segment_sum

MOST_MATCHED = 64  # rows of a template that is matched by linear assignment
MOST_WEIGHTS = 10_000_000


class Gamma(Readout):
    """φ(X)_k = ⟨b_k, ↓(Xa_k)⟩, columns zero-padded to N rows after sorting: [n, d] → R^m, m = 2Nd − d.

    A [d, m] and B [N, m] are random. For almost all of them the map is injective and bi-Lipschitz with this m; fewer
    outputs do not promise that. `trainable` trains both, from the same start. The upper bound is s₁ of A with its
    columns scaled by ‖b_k‖.
    """

    permutation_invariant = True
    injective = "yes"
    lipschitz = True
    bi_lipschitz = True
    formula = "⟨bₖ, ↓(Xaₖ)⟩"
    dimension = "2N·d − d"
    cost = "m·(n·log n + n·d)"
    reference = "arXiv 2510.22186"
    max_nodes: int
    key: Tensor
    weight: Tensor

    def __init__(
        self,
        in_channels: int,
        max_nodes: int,
        out_channels: int | None = None,
        trainable: bool = False,
        seed: int = 0,
    ) -> None:
        check_size("in_channels", in_channels)
        check_size("max_nodes", max_nodes)
        check_size("seed", seed, least=0)
        enough = (2 * max_nodes - 1) * in_channels
        name = f"{type(self).__name__} of N = {max_nodes} rows in d = {in_channels}"
        m = enough_outputs(name, enough, out_channels)
        super().__init__()
        self.in_channels, self.max_nodes, self.out_channels = in_channels, max_nodes, m
        if m < enough:
            self.injective, self.bi_lipschitz = "no", False
        A, B = drawn(seed, (in_channels, m), (max_nodes, m))
        keep(self, trainable, key=A, weight=B / m**0.5)

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        columns = sort_rows(x @ self.key.to(x.dtype), ptr)
        weights = self.weight.to(x.dtype).index_select(0, places(ptr, x.size(0))[1])
        return segment_sum(weights * columns, ptr)


class RankOneFilters(Gamma):
    """φ(X)_k = max_Π ⟨ΠX, z_k a_kᵀ⟩ = ⟨↓(Xa_k), ↓z_k⟩, X zero-padded to N rows: [n, d] → R^m, m = 2Nd − d.

    This is γ_{A,B} with sorted b, so almost all templates are injective and bi-Lipschitz with this m; fewer do not
    promise that. A padding row contributes nothing: positive entries meet the first places of ↓z, negative ones the
    last. `trainable` trains a and z.
    """

    formula = "max over Π of ⟨ΠX, zₖaₖᵀ⟩"
    reference = "arXiv 2205.14039, 2510.22186"

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        columns = sort_rows(x @ self.key.to(x.dtype), ptr)
        graph, place = places(ptr, x.size(0))
        room = (self.max_nodes - ptr.diff()).index_select(0, graph)
        meets = place[:, None] + room[:, None] * (columns < 0)
        templates = self.weight.to(x.dtype).sort(dim=0, descending=True).values
        return segment_sum(templates.gather(0, meets) * columns, ptr)


class MaxFilters(Readout):
    """φ(X)_k = ⟨⟨X, Z_k⟩⟩ = max_Π ⟨ΠX, Z_k⟩, X zero-padded to N rows, Z_k [N, d]: [n, d] → R^m, m = 2Nd.

    A linear assignment per graph and template, solved by scipy on the CPU: for small graphs, N ≤ 64. Almost all
    templates are injective and bi-Lipschitz with this m; fewer do not promise that. `trainable` trains them.
    """

    permutation_invariant = True
    injective = "yes"
    lipschitz = True
    bi_lipschitz = True
    formula = "max over Π of ⟨ΠX, Zₖ⟩"
    dimension = "2N·d"
    cost = "m·(n²·N + n·N·d)"
    reference = "arXiv 2205.14039, 2410.05446"
    max_nodes: int
    templates: Tensor

    def __init__(
        self,
        in_channels: int,
        max_nodes: int,
        out_channels: int | None = None,
        trainable: bool = False,
        seed: int = 0,
    ) -> None:
        check_size("in_channels", in_channels)
        check_size("max_nodes", max_nodes)
        check_size("seed", seed, least=0)
        if max_nodes > MOST_MATCHED:
            raise ReadoutError(
                f"max_nodes is {max_nodes}; max_filters matches graphs of at most {MOST_MATCHED} nodes: "
                "rank_one_filters sorts instead and takes any"
            )
        enough = 2 * max_nodes * in_channels
        m = enough_outputs(f"max_filters of N = {max_nodes} rows in d = {in_channels}", enough, out_channels)
        if m * max_nodes * in_channels > MOST_WEIGHTS:
            raise ReadoutError(
                f"the templates would have {m * max_nodes * in_channels:,} numbers; the limit is {MOST_WEIGHTS:,}: "
                "choose a smaller out_channels or d"
            )
        super().__init__()
        self.in_channels, self.max_nodes, self.out_channels = in_channels, max_nodes, m
        if m < enough:
            self.injective, self.bi_lipschitz = "no", False
        keep(self, trainable, templates=drawn(seed, (m, max_nodes, in_channels))[0] / m**0.5)

    def pool(self, x: Tensor, ptr: Tensor) -> Tensor:
        scores = torch.einsum("nd,mkd->nmk", x, self.templates.to(x.dtype))  # of every row at every place [n, m, N]
        best = torch.from_numpy(best_places(scores.detach().cpu().double().numpy(), ptr.tolist())).to(x.device)
        return segment_sum(scores.gather(2, best[:, :, None])[:, :, 0], ptr)


def best_places(scores: np.ndarray, ptr: list[int]) -> np.ndarray:
    """scores [n, m, N] → for every row and template the place of the best assignment within the row's graph, [n, m]."""
    finite = np.nan_to_num(scores)
    best = np.zeros(finite.shape[:2], dtype=np.int64)
    for start, end in pairwise(ptr):
        for k in range(finite.shape[1]):
            best[start:end, k] = linear_sum_assignment(finite[start:end, k], maximize=True)[1]
    return best


def drawn(seed: int, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Independent standard normal arrays, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]


def keep(readout: Readout, trainable: bool, **tensors: Tensor) -> None:
    """As parameters if they are trained, else as buffers."""
    for name, tensor in tensors.items():
        if trainable:
            readout.register_parameter(name, torch.nn.Parameter(tensor.to(torch.get_default_dtype())))
        else:
            readout.register_buffer(name, tensor)
