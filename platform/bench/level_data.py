"""Simulated data sets on which all methods are equally good: whatever a test finds there is a false alarm.

A graph has a latent u ~ N(0, 1) and the label u + ε > 0. A method sees d columns u + 2ε_j with its own noise, as
informative as any other method's. It fits a ridge regression to the training part; its score is the AUC on the
holdout. As in a real sweep, the results of one data set are dependent: its seeds split the same graphs, and a wider
embedding contains the columns of a narrower one.
"""

import numpy as np
from scipy.stats import rankdata

GRAPHS, HOLDOUT = 1113, 200  # those of PROTEINS_full
NOISE, RIDGE = 2.0, 1.0


def random_splits(rng: np.random.Generator, methods: int, seeds: int, widths: list[int]) -> np.ndarray:
    """One data set, each seed with its own split: AUC [d, seed, method]."""
    y, columns = _data_set(rng, methods, max(widths))
    scores = np.empty((len(widths), seeds, methods))
    for seed in range(seeds):
        order = rng.permutation(GRAPHS)
        holdout, train = order[:HOLDOUT], order[HOLDOUT:]
        for place, d in enumerate(widths):
            x = columns[:, :, :d]
            weights = _fit(x[:, train], y[train], np.ones((methods, len(train))))
            scores[place, seed] = _auc(x[:, holdout] @ weights, y[holdout])
    return scores


def one_split(rng: np.random.Generator, methods: int, seeds: int, d: int, *, same: bool) -> np.ndarray:
    """One data set and one split; a seed bootstraps the training graphs, in place of the luck of weights and order.

    AUC [seed, method]. With `same` all methods see the same columns and are equal on this very split; without it
    they are equal only on average over splits.
    """
    y, x = _data_set(rng, 1 if same else methods, d)
    x = np.repeat(x, methods, axis=0) if same else x
    scores = np.empty((seeds, methods))
    for seed in range(seeds):
        train_graphs = GRAPHS - HOLDOUT
        counts = rng.multinomial(train_graphs, np.full(train_graphs, 1 / train_graphs), size=methods)
        weights = _fit(x[:, HOLDOUT:], y[HOLDOUT:], counts)
        scores[seed] = _auc(x[:, :HOLDOUT] @ weights, y[:HOLDOUT])
    return scores


def _data_set(rng: np.random.Generator, methods: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels [graph], columns [method, graph, column]."""
    latent = rng.standard_normal(GRAPHS)
    y = latent + rng.standard_normal(GRAPHS) > 0
    return y, latent[:, None] + NOISE * rng.standard_normal((methods, GRAPHS, d))


def _fit(x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """w = (XᵀCX + λI)⁻¹ XᵀC(2y − 1), C how often each graph counts [method, graph]; w is [method, d, 1]."""
    weighted = (x * counts[:, :, None]).transpose(0, 2, 1)
    return np.linalg.solve(weighted @ x + RIDGE * np.eye(x.shape[2]), weighted @ (2.0 * y - 1)[:, None])


def _auc(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """AUC of every method; scores [method, graph, 1]."""
    ranks = rankdata(scores[:, :, 0], axis=1)
    positive = int(y.sum())
    auc: np.ndarray = (ranks[:, y].sum(axis=1) - positive * (positive + 1) / 2) / (positive * (len(y) - positive))
    return auc
