"""Measure a trained readout on the embeddings of the holdout: its invariance error and its Lipschitz ratios.

`permlab certify` searches all matrices; this measures the embeddings of real graphs, at the end of a run.
"""

from copy import deepcopy
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
LARGEST = 100  # nodes of a paired graph: d(X, Y) takes O(n³)
_DRAW, _PERMUTE = 41, 42  # entropy: one number per use of the seed


def measure_certificate(training: Training) -> dict[str, float]:
    """The certificate of a finished training; all methods of a seed get the same graphs. Empty without a holdout.

    invariance_error            largest ‖φ(Γ(πG)) − φ(Γ(G))‖ / ‖φ(Γ(G))‖, the nodes permuted in the data
    ratio_min, _median, _max    of ‖φ(X) − φ(Y)‖ / d(X, Y), X and Y the embeddings of two graphs of one size
    pairs                       how many pairs had d(X, Y) > 0

    The trained model runs on the CPU, in double precision as in every evaluation.
    """
    if "holdout" not in training.settings.splits:
        return {}
    store, seed = training.store.to("cpu"), training.settings.seed
    model = cast(GraphModel, deepcopy(training.task.model).cpu().double().eval())
    holdout = training.data.split.holdout
    holdout = holdout[random_order(len(holdout), seed, _DRAW)]
    with torch.no_grad():
        error = _invariance_error(model, store, holdout[:GRAPHS], derive_seed(seed, _PERMUTE))
        ratios = _ratios(model, store, pairs_of_one_size(holdout, np.diff(store.node_ptr)[holdout]))
    certificate = {"invariance_error": error}
    if len(ratios):
        certificate |= {
            "ratio_min": float(ratios.min()),
            "ratio_median": float(np.median(ratios)),
            "ratio_max": float(ratios.max()),
        }
    return certificate | {"pairs": float(len(ratios))}


def pairs_of_one_size(graphs: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Pairs of successive graphs of equal size: [pairs, 2], at most PAIRS of them."""
    by_size = np.argsort(nodes, kind="stable")
    left, right = by_size[:-1], by_size[1:]
    same = (nodes[left] == nodes[right]) & (nodes[left] <= LARGEST)
    places = np.stack([left[same], right[same]], axis=1)
    return graphs[places[np.argsort(places.max(axis=1), kind="stable")[:PAIRS]]]


def _invariance_error(model: GraphModel, store: GraphStore, graphs: np.ndarray, seed: int) -> float:
    plain, permuted = (_image(model, store, graphs, permutation)[2] for permutation in (None, seed))
    return float(((permuted - plain).norm(dim=1) / plain.norm(dim=1).clamp(min=1e-12)).max())


def _ratios(model: GraphModel, store: GraphStore, pairs: np.ndarray) -> np.ndarray:
    if not len(pairs):
        return np.zeros(0)
    x, ptr, image = _image(model, store, pairs.reshape(-1))
    matrices = [x[a:b] for a, b in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)]
    distance = np.array([quotient_distance(X, Y) for X, Y in zip(matrices[::2], matrices[1::2], strict=True)])
    size = np.array([float(X.norm()) for X in matrices[::2]])
    moved = (image[::2] - image[1::2]).norm(dim=1).numpy()
    apart = distance > 1e-9 * size  # smaller distances are rounding errors
    return np.asarray(moved[apart] / distance[apart])


def _image(
    model: GraphModel, store: GraphStore, graphs: np.ndarray, permutation: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """X of all graphs [n, d], its bounds [B + 1], and φ(X) [B, m]."""
    batch = store.batch(graphs, permutation)
    x = model.backbone(batch)
    return x, batch.ptr, pooled(model.readout, x, batch.ptr)
