"""Every readout by name, and how a readout is built for embeddings of d columns and graphs of at most N nodes.

build("ordering", d=10, max_nodes=29)
build("kernels", d=10, max_nodes=29, kernels=200)
build(MyAggregation, d=10, max_nodes=29)
"""

from typing import Any, TypeAlias

import torch
from torch_geometric.nn.aggr import Aggregation

from permlab.readouts.algebraic import Alpha0, Alpha1, Alpha2, Zeta0, Zeta1
from permlab.readouts.attention import GatedAttention, GraphMultisetTransformer, SetTransformer
from permlab.readouts.averages import Max, Mean, Min, MultiAggregation, PowerMean, Softmax, Std, VariancePreserving
from permlab.readouts.base import Readout, pooled
from permlab.readouts.checks import check_size
from permlab.readouts.construct import dry_run, made_by_name
from permlab.readouts.errors import ReadoutError, said
from permlab.readouts.filters import Gamma, MaxFilters, RankOneFilters
from permlab.readouts.janossy import Janossy
from permlab.readouts.kernels import FourierKernels, GaussianKernels, PolynomialKernels, PowerSums
from permlab.readouts.names import check_name
from permlab.readouts.order_dependent import GRU, LSTM, MLP
from permlab.readouts.pooling import Identity, SortPooling, Sum
from permlab.readouts.set2set import Set2Set
from permlab.readouts.sliced import FSW, PSWE, FSPool
from permlab.readouts.sorting import Ordering, ReducedOrdering, TrainedOrdering
from permlab.readouts.summing import AdaptiveReLU, DeepSets, DeepSetsReLU, SecondMoments

CATALOGUE: dict[str, type[Readout]] = {
    "ordering": Ordering,
    "kernels": GaussianKernels,
    "identity": Identity,
    "augment": Identity,
    "sum": Sum,
    "sort": SortPooling,
    "set2set": Set2Set,
    "reduced": ReducedOrdering,
    "alpha0": Alpha0,
    "alpha1": Alpha1,
    "alpha2": Alpha2,
    "zeta0": Zeta0,
    "zeta1": Zeta1,
    "power_sums": PowerSums,
    "polynomial": PolynomialKernels,
    "fourier": FourierKernels,
    "trained_ordering": TrainedOrdering,
    "gamma": Gamma,
    "rank_one_filters": RankOneFilters,
    "max_filters": MaxFilters,
    "fspool": FSPool,
    "pswe": PSWE,
    "fsw": FSW,
    "deepsets": DeepSets,
    "deepsets_relu": DeepSetsReLU,
    "adaptive_relu": AdaptiveReLU,
    "moments": SecondMoments,
    "mean": Mean,
    "max": Max,
    "min": Min,
    "std": Std,
    "softmax": Softmax,
    "power_mean": PowerMean,
    "variance_preserving": VariancePreserving,
    "multi": MultiAggregation,
    "attention": GatedAttention,
    "set_transformer": SetTransformer,
    "multiset_transformer": GraphMultisetTransformer,
    "janossy": Janossy,
    "gru": GRU,
    "lstm": LSTM,
    "mlp": MLP,
}
ReadoutLike: TypeAlias = str | type[Aggregation] | Aggregation


def build(readout: ReadoutLike, /, d: int, max_nodes: int, seed: int = 0, **options: Any) -> Aggregation:
    """The readout for x [n, d] and graphs of at most `max_nodes` nodes: a built-in name, a class, or a copy of an
    object. Options go to the constructor, which gets d, `max_nodes` and the seed by the names of its arguments.
    """
    name = readout if isinstance(readout, str) else getattr(readout, "__name__", type(readout).__name__)
    made_by = CATALOGUE[check_name(readout)] if isinstance(readout, str) else readout
    check_size("d", d, most=10_000)
    check_size("max_nodes", max_nodes)
    check_size("seed", seed, least=0)
    sizes = {"in_channels": d, "max_nodes": max_nodes, "max_num_elements": max_nodes, "seed": seed}
    as_wide = {"channels": d, "out_channels": d}
    made = made_by_name(name, made_by, options, ReadoutError, fixed=sizes, if_needed=as_wide)
    if not isinstance(made, Aggregation):
        kind = "a class" if isinstance(made_by, type) else "an object"
        raise ReadoutError(f"{name} is {kind} of {type(made).__name__}, not of torch_geometric.nn.aggr.Aggregation")
    if not isinstance(readout, str):
        _complete(",".join([name, *(f"{key}={value}" for key, value in options.items())]), made, d, max_nodes)
    return made


def _complete(name: str, made: Aggregation, d: int, max_nodes: int) -> None:
    """Find out m, and note d and m on the readout. Somebody's own in_channels and out_channels may mean other things,
    so they stay as they are.
    """
    m = _width(name, made, d, max_nodes)
    if isinstance(made, Readout) and getattr(made, "out_channels", m) != m:
        raise ReadoutError(f"{name} has out_channels = {made.out_channels}, but gives {m} numbers per graph")
    made.permlab_sizes = (d, m)
    for attribute, size in (("in_channels", d), ("out_channels", m)):
        if getattr(made, attribute, None) is None:
            setattr(made, attribute, size)


def _width(name: str, made: Aggregation, d: int, max_nodes: int) -> int:
    """m, by pooling two small graphs: x [n, d] → [2, m]. What the map does wrong is one clear line here."""
    sizes = torch.tensor([min(2, max_nodes), min(3, max_nodes)])
    ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    with dry_run(made):
        x = torch.randn(int(ptr[-1]), d, generator=torch.Generator().manual_seed(0))
        try:
            image = pooled(made, x, ptr)
        except (Exception, SystemExit) as error:
            raise ReadoutError(
                f"{name} fails on two graphs of {sizes[0]} and {sizes[1]} nodes, x [{len(x)}, {d}]: {said(error)}"
            ) from error
    shape = list(image.shape) if isinstance(image, torch.Tensor) else type(image).__name__
    if not isinstance(image, torch.Tensor) or image.dim() != 2 or len(image) != 2 or not image.size(1):
        raise ReadoutError(f"{name} gives {shape} for two graphs; a readout gives one row per graph, [2, m]")
    if not image.is_floating_point() or not torch.isfinite(image).all():
        raise ReadoutError(f"{name} gives {image.dtype} values that are not all finite for finite x")
    return image.size(1)
