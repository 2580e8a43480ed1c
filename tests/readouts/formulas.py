"""The maps that are not in the paper, graph by graph: X [n, d] in double precision → [m], by NumPy and plain loops.

Written from the docstrings and the cited papers, not from the code. Weights are read from the readout.
"""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
from torch import Tensor

Formula = Callable[[Any, np.ndarray], np.ndarray]


def array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().double().numpy()


def relu(values: np.ndarray) -> np.ndarray:
    return np.maximum(values, 0)


def sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def linear(layer: Any, X: np.ndarray) -> np.ndarray:
    return X @ array(layer.weight).T + (0 if layer.bias is None else array(layer.bias))


def gamma(readout: Any, X: np.ndarray) -> np.ndarray:
    out = []
    for a, b in zip(array(readout.key).T, array(readout.weight).T, strict=True):
        column = sorted((float(x @ a) for x in X), reverse=True)
        out.append(sum(weight * value for weight, value in zip(b, column, strict=False)))
    return np.array(out)


def best_match(X: np.ndarray, Z: np.ndarray) -> float:
    """max over Π of ⟨ΠX, Z⟩, X zero-padded: every way to give each row of X a row of Z of its own."""
    ways = permutations(range(len(Z)), len(X))
    return max(sum(float(x @ Z[place]) for x, place in zip(X, way, strict=True)) for way in ways)


def rank_one_filters(readout: Any, X: np.ndarray) -> np.ndarray:
    templates = zip(array(readout.key).T, array(readout.weight).T, strict=True)
    return np.array([best_match(X, np.outer(z, a)) for a, z in templates])


def max_filters(readout: Any, X: np.ndarray) -> np.ndarray:
    return np.array([best_match(X, Z) for Z in array(readout.templates)])


def fspool(readout: Any, X: np.ndarray) -> np.ndarray:
    values, out = array(readout.weight), []
    knots = np.linspace(0, 1, readout.pieces + 1)
    for j in range(X.shape[1]):
        column = sorted(X[:, j].tolist(), reverse=True)
        ranks = [i / (len(X) - 1) if len(X) > 1 else 0.0 for i in range(len(X))]
        out.append(sum(np.interp(rank, knots, values[:, j]) * y for rank, y in zip(ranks, column, strict=True)))
    return np.array(out, dtype=float)


def pswe(readout: Any, X: np.ndarray) -> np.ndarray:
    theta, out = array(readout.slices), []
    for q in range(readout.ranks):
        for slice_ in theta.T:
            column = sorted((X @ slice_ / np.linalg.norm(slice_)).tolist())
            rank = q / (readout.ranks - 1) * (len(X) - 1)
            out.append(np.interp(rank, range(len(X)), column) if len(X) else 0.0)
    return np.array(out) - array(readout.reference_values).reshape(-1)


def fsw(readout: Any, X: np.ndarray) -> np.ndarray:
    n, out = len(X), [float(len(X))]
    for v, xi in zip(array(readout.slices).T, array(readout.frequencies), strict=True):
        column = sorted((X @ v).tolist())
        waves = [np.sin(2 * np.pi * xi * i / n) for i in range(n + 1)] if n else []
        total = sum(y * (waves[i + 1] - waves[i]) for i, y in enumerate(column))
        out.append((1 + xi) / (np.pi * xi) * total)
    return np.array(out)


def deepsets(sigma: Callable[[np.ndarray], np.ndarray]) -> Formula:
    def formula(readout: Any, X: np.ndarray) -> np.ndarray:
        layer = readout.aggregation.local_nn[0]
        return sum((sigma(linear(layer, x)) for x in X), np.zeros(readout.out_channels))

    return formula


def adaptive_relu(readout: Any, X: np.ndarray) -> np.ndarray:
    out = []
    for k in range(readout.out_channels):
        z, t = [float(x @ array(readout.directions)[:, k]) for x in X], array(readout.t)[k]
        low, high = min(z, default=0.0), max(z, default=0.0)
        above = sum(max(value - t * high - (1 - t) * low, 0.0) for value in z)
        out.append(array(readout.weight)[:, k] @ [len(X), low, high, above, sum(z)])
    return np.array(out)


def moments(readout: Any, X: np.ndarray) -> np.ndarray:
    d = X.shape[1]
    products = [sum(x[i] * x[j] for x in X) for i in range(d) for j in range(i, d)]
    return np.array([*X.sum(axis=0), *products], dtype=float)


def by_column(reduce: Callable[[np.ndarray], float], empty: float = 0.0) -> Formula:
    def formula(readout: Any, X: np.ndarray) -> np.ndarray:
        return np.array([reduce(column) if len(X) else empty for column in X.T])

    return formula


def cut_std(column: np.ndarray) -> float:
    variance = np.mean((column - np.mean(column)) ** 2)
    return float(np.sqrt(variance)) if variance > 1e-5 else 0.0


def weighted_by_itself(readout: Any, X: np.ndarray) -> np.ndarray:
    out = []
    for column, t in zip(X.T, np.broadcast_to(array(readout.aggregation.t), X.shape[1]), strict=True):
        weights = np.exp(t * (column - column.max(initial=-np.inf)))
        out.append(weights @ column / weights.sum() if len(X) else 0.0)
    return np.array(out)


def power_mean(readout: Any, X: np.ndarray) -> np.ndarray:
    p = readout.aggregation.p
    p = np.broadcast_to(array(p) if isinstance(p, Tensor) else p, X.shape[1])
    means = [np.mean(np.clip(X[:, j], 1e-4, 100) ** p[j]) if len(X) else 0.0 for j in range(X.shape[1])]
    return np.array([np.clip(mean, 1e-4, 100) ** (1 / p[j]) for j, mean in enumerate(means)])


def multi(readout: Any, X: np.ndarray) -> np.ndarray:
    if not len(X):
        return np.zeros(12 * X.shape[1])
    numbers = np.concatenate([by_column(reduce)(readout, X) for reduce in (np.mean, np.max, np.min, cut_std)])
    s = np.log(len(X) + 1) / float(readout.aggregation.avg_deg_log)
    return np.concatenate([numbers, numbers * s, numbers / s])


def gated(readout: Any, X: np.ndarray) -> np.ndarray:
    gates = np.exp(linear(readout.aggregation.gate_nn, X)[:, 0])
    return gates / gates.sum() @ linear(readout.aggregation.nn, X) if len(X) else np.zeros(X.shape[1])


def attend(block: Any, Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """MAB(Q, K): one row of Q at a time, one head at a time."""
    d, attention = Q.shape[1], block.attn
    weights, biases = array(attention.in_proj_weight), array(attention.in_proj_bias)
    q, k, v = (Y @ weights[i * d : (i + 1) * d].T + biases[i * d : (i + 1) * d] for i, Y in enumerate((Q, K, K)))
    rows = []
    for query in q:
        parts = []
        for head in np.split(np.arange(d), attention.num_heads):
            scores = np.exp(k[:, head] @ query[head] / np.sqrt(len(head)))
            parts.append(scores / scores.sum() @ v[:, head])
        rows.append(np.concatenate(parts))
    H = Q + linear(attention.out_proj, np.array(rows))
    return H + relu(linear(block.lin, H))


def seeds(pooling: Any, X: np.ndarray) -> np.ndarray:
    return attend(pooling.mab, array(pooling.seed)[0], relu(linear(pooling.lin, X)))


def set_transformer(readout: Any, X: np.ndarray) -> np.ndarray:
    if not len(X):
        return np.zeros(readout.out_channels)
    parts = readout.aggregation
    inner = attend(parts.encoders[0].mab, X, X)
    pooled = seeds(parts.pma, inner)
    return attend(parts.decoders[0].mab, pooled, pooled).reshape(-1)


def multiset_transformer(readout: Any, X: np.ndarray) -> np.ndarray:
    if not len(X):
        return np.zeros(readout.out_channels)
    parts = readout.aggregation
    pooled = seeds(parts.pma1, X)
    return seeds(parts.pma2, attend(parts.encoders[0].mab, pooled, pooled))[0]


def janossy(readout: Any, X: np.ndarray) -> np.ndarray:
    def pair(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return relu(linear(readout.first, x) + linear(readout.second, y))

    n = len(X)
    if n < 2:
        return pair(X[0], np.zeros_like(X[0])) if n else np.zeros(readout.out_channels)
    return sum(pair(X[i], X[j]) for i, j in permutations(range(n), 2)) / (n * (n - 1))


def gates_of(layer: Any, x: np.ndarray, h: np.ndarray, count: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What a recurrent layer computes from the new row, and from its state."""
    into = array(layer.weight_ih_l0) @ x + array(layer.bias_ih_l0)
    again = array(layer.weight_hh_l0) @ h + array(layer.bias_hh_l0)
    return np.split(into, count), np.split(again, count)


def gru(readout: Any, X: np.ndarray) -> np.ndarray:
    h = np.zeros(X.shape[1])
    for x in X:
        (r, z, new), (r_again, z_again, new_again) = gates_of(readout.aggregation.gru, x, h, 3)
        update = sigmoid(z + z_again)
        h = (1 - update) * np.tanh(new + sigmoid(r + r_again) * new_again) + update * h
    return h


def lstm(readout: Any, X: np.ndarray) -> np.ndarray:
    h = cell = np.zeros(X.shape[1])
    for x in X:
        into, again = gates_of(readout.aggregation.lstm, x, h, 4)
        let_in, forget, new, out = (a + b for a, b in zip(into, again, strict=True))
        cell = sigmoid(forget) * cell + sigmoid(let_in) * np.tanh(new)
        h = sigmoid(out) * np.tanh(cell)
    return h


def mlp(readout: Any, X: np.ndarray) -> np.ndarray:
    flat = np.zeros(readout.max_nodes * X.shape[1])
    flat[: X.size] = X.reshape(-1)
    first, last = readout.aggregation.mlp.lins
    return linear(last, relu(linear(first, flat)))


FORMULAS: dict[str, Formula] = {
    "gamma": gamma,
    "rank_one_filters": rank_one_filters,
    "max_filters": max_filters,
    "fspool": fspool,
    "pswe": pswe,
    "fsw": fsw,
    "deepsets": deepsets(np.tanh),
    "deepsets_relu": deepsets(relu),
    "adaptive_relu": adaptive_relu,
    "moments": moments,
    "mean": by_column(np.mean),
    "max": by_column(np.max),
    "min": by_column(np.min),
    "std": by_column(cut_std),
    "softmax": weighted_by_itself,
    "power_mean": power_mean,
    "variance_preserving": by_column(lambda column: np.sum(column) / np.sqrt(len(column))),
    "multi": multi,
    "attention": gated,
    "set_transformer": set_transformer,
    "multiset_transformer": multiset_transformer,
    "janossy": janossy,
    "gru": gru,
    "lstm": lstm,
    "mlp": mlp,
}
