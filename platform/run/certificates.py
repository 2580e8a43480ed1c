"""Measure a trained readout on the embeddings of the holdout: its invariance error, its batch error, its Lipschitz
ratios and its smallest gap.

`permlab certify` searches all matrices; this measures the embeddings of real graphs, at the end of a run.
"""

from copy import deepcopy
from itertools import pairwise
from typing import cast

import numpy as np
import torch
from torch import Tensor

from permlab.datasets.randomness import derive_seed, random_order
from permlab.datasets.store import GraphStore
from permlab.platform.run.training import Training
from permlab.readouts.base import pooled
from permlab.readouts.theory.metric import quotient_distance
from permlab.tasks.model import GraphModel

GRAPHS, PAIRS = 64, 64  # how many of the holdout are measured
NEIGHBOURS = 200  # graphs of the holdout among which the smallest gap is sought
LARGEST = 100  # nodes of a paired graph: d(X, Y) takes O(n³)
_DRAW, _PERMUTE = 41, 42  # entropy: one number per use of the seed


def measure_certificate(training: Training) -> dict[str, float]:
    """The certificate of a finished training; all methods of a seed get the same graphs. Empty without a holdout.

    invariance_error            largest ‖φ(Γ(πG)) − φ(Γ(G))‖ / ‖φ(Γ(G))‖, the nodes permuted in the data
    batch_error                 largest ‖φ(Γ(G) | B) − φ(Γ(G))‖ / ‖φ(Γ(G))‖, G pooled in a batch B of GRAPHS graphs
    ratio_min, _median, _max    of ‖φ(X) − φ(Y)‖ / d(X, Y), X and Y the embeddings of two graphs of one size
    pairs                       how many pairs had d(X, Y) > 0
    gap                         smallest ‖φ(X) − φ(Y)‖ of two graphs with X ≁ Y, over the median of all pairs

    φ(Γ(G)) is of a graph by itself: in a batch, padding could hide what φ does, as it does for a recurrent network. The
    trained model runs on the CPU, in double precision as in every evaluation.
    """
    if "holdout" not in training.settings.splits_at_end:
        return {}
    store, seed = training.store.to("cpu"), training.settings.seed
    model = cast(GraphModel, deepcopy(training.task.model).cpu().double().eval())
    holdout = training.data.split.holdout
    holdout = holdout[random_order(len(holdout), seed, _DRAW)]
    with torch.no_grad():
        X = _embeddings(model, store, holdout[:GRAPHS])
        permuted = _embeddings(model, store, holdout[:GRAPHS], derive_seed(seed, _PERMUTE))
        alone = _pooled_alone(model, X)
        certificate = {
            "invariance_error": _largest_change(alone, _pooled_alone(model, permuted)),
            "batch_error": _largest_change(alone, _pooled_together(model, X)),
        }
        ratios = _ratios(model, store, pairs_of_one_size(holdout, np.diff(store.node_ptr)[holdout]))
        gap = _gap(model, store, holdout[:NEIGHBOURS])
    if len(ratios):
        certificate |= {
            "ratio_min": float(ratios.min()),
            "ratio_median": float(np.median(ratios)),
            "ratio_max": float(ratios.max()),
        }
    if gap is not None:
        certificate["gap"] = gap
    return certificate | {"pairs": float(len(ratios))}


def pairs_of_one_size(graphs: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Pairs of successive graphs of equal size: [pairs, 2], at most PAIRS of them."""
    by_size = np.argsort(nodes, kind="stable")
    left, right = by_size[:-1], by_size[1:]
    same = (nodes[left] == nodes[right]) & (nodes[left] <= LARGEST)
    places = np.stack([left[same], right[same]], axis=1)
    return graphs[places[np.argsort(places.max(axis=1), kind="stable")[:PAIRS]]]


def _largest_change(image: Tensor, other: Tensor) -> float:
    """The largest ‖other_g − image_g‖ / ‖image_g‖ of two [G, m]."""
    return float(((other - image).norm(dim=1) / image.norm(dim=1).clamp(min=1e-12)).max())


def _ratios(model: GraphModel, store: GraphStore, pairs: np.ndarray) -> np.ndarray:
    if not len(pairs):
        return np.zeros(0)
    matrices = _embeddings(model, store, pairs.reshape(-1))
    image = _pooled_alone(model, matrices)
    distance = np.array([quotient_distance(X, Y) for X, Y in zip(matrices[::2], matrices[1::2], strict=True)])
    size = np.array([float(X.norm()) for X in matrices[::2]])
    moved = (image[::2] - image[1::2]).norm(dim=1).numpy()
    apart = distance > 1e-9 * size  # smaller distances are rounding errors
    return np.asarray(moved[apart] / distance[apart])


def _gap(model: GraphModel, store: GraphStore, graphs: np.ndarray) -> float | None:
    """The smallest distance of two images over the median one; graphs that Γ itself made equal do not count."""
    matrices = _embeddings(model, store, graphs)
    image = _pooled_alone(model, matrices)
    first, second = torch.triu_indices(len(graphs), len(graphs), offset=1)
    distance = torch.cdist(image, image, compute_mode="donot_use_mm_for_euclid_dist")[first, second]
    for pair in distance.argsort().tolist():
        X, Y = matrices[first[pair]], matrices[second[pair]]
        if len(X) != len(Y) or quotient_distance(X, Y) > 1e-9 * float(X.norm()):
            return float(distance[pair] / distance.median().clamp(min=1e-300))
    return None


def _embeddings(
    model: GraphModel, store: GraphStore, graphs: np.ndarray, permutation: int | None = None
) -> list[Tensor]:
    """X [n, d] of each graph."""
    batch = store.batch(graphs, permutation)
    x = model.embedded(batch)
    return [x[first:last] for first, last in pairwise(batch.ptr.tolist())]


def _pooled_alone(model: GraphModel, matrices: list[Tensor]) -> Tensor:
    """φ(X) of each graph by itself, [G, m]."""
    return torch.cat([_pooled_together(model, [X]) for X in matrices])


def _pooled_together(model: GraphModel, matrices: list[Tensor]) -> Tensor:
    """φ(X) of the graphs as one batch, [G, m]."""
    sizes = torch.tensor([0, *map(len, matrices)])
    return pooled(model.readout, torch.cat(matrices), sizes.cumsum(0))
