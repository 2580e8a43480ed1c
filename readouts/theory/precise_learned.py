"""φ(X) in many digits for the maps that sum, average, attend or read in order: registered with `formula`."""

from typing import Any

import numpy as np
from mpmath import mp, mpf
from torch import nn

from permlab.readouts.attention import GatedAttention, GraphMultisetTransformer, SetTransformer
from permlab.readouts.averages import Max, Mean, Min, MultiAggregation, PowerMean, Softmax, Std, VariancePreserving
from permlab.readouts.janossy import Janossy
from permlab.readouts.order_dependent import GRU, LSTM, MLP
from permlab.readouts.summing import AdaptiveReLU, DeepSets, DeepSetsReLU, SecondMoments
from permlab.readouts.theory.digits import TooFlatError, exponentials, formula, hyperbolic_tangents, logistic, numbers

CUT = mpf(1e-5)  # PyG sets a variance up to this to 0


@formula.register
def _(readout: DeepSets, X: np.ndarray) -> np.ndarray:
    values = hyperbolic_tangents(_linear(readout.aggregation.local_nn, X))
    if any(1 - abs(value) < mpf(10) ** (-mp.dps / 3) for value in values.flat):
        raise TooFlatError
    return values.sum(axis=0)


@formula.register
def _(readout: DeepSetsReLU, X: np.ndarray) -> np.ndarray:
    return _relu(_linear(readout.aggregation.local_nn, X)).sum(axis=0)


@formula.register
def _(readout: AdaptiveReLU, X: np.ndarray) -> np.ndarray:
    z, t = X @ numbers(readout.directions), numbers(readout.t)
    low, high = z.min(axis=0), z.max(axis=0)
    above = _relu(z - t * high - (1 - t) * low).sum(axis=0)
    return (numbers(readout.weight) * np.stack([0 * low + len(X), low, high, above, z.sum(axis=0)])).sum(axis=0)


@formula.register
def _(readout: SecondMoments, X: np.ndarray) -> np.ndarray:
    return np.concatenate([X.sum(axis=0), (X.T @ X)[np.triu_indices(X.shape[1])]])


@formula.register
def _(readout: Mean, X: np.ndarray) -> np.ndarray:
    return X.sum(axis=0) / len(X)


@formula.register
def _(readout: Max, X: np.ndarray) -> np.ndarray:
    return X.max(axis=0)


@formula.register
def _(readout: Min, X: np.ndarray) -> np.ndarray:
    return X.min(axis=0)


@formula.register
def _(readout: Std, X: np.ndarray) -> np.ndarray:
    return _deviation(X)


@formula.register
def _(readout: VariancePreserving, X: np.ndarray) -> np.ndarray:
    return X.sum(axis=0) / mp.sqrt(len(X))


@formula.register
def _(readout: Softmax, X: np.ndarray) -> np.ndarray:
    weights = exponentials(_power(readout.aggregation.t, X.shape[1]) * X)
    return (weights * X).sum(axis=0) / weights.sum(axis=0)


@formula.register
def _(readout: PowerMean, X: np.ndarray) -> np.ndarray:
    p = _power(readout.aggregation.p, X.shape[1])
    means = (_clamped(X) ** p).sum(axis=0) / len(X)
    return _clamped(means) ** (1 / p)


@formula.register
def _(readout: MultiAggregation, X: np.ndarray) -> np.ndarray:
    four = np.concatenate([X.sum(axis=0) / len(X), X.max(axis=0), X.min(axis=0), _deviation(X)])
    s = mp.log(len(X) + 1) / numbers(readout.aggregation.avg_deg_log)[0]
    return np.concatenate([four, four * s, four / s])


@formula.register
def _(readout: GatedAttention, X: np.ndarray) -> np.ndarray:
    gates = exponentials(_linear(readout.aggregation.gate_nn, X))
    return (gates * _linear(readout.aggregation.nn, X)).sum(axis=0) / gates.sum()


@formula.register
def _(readout: SetTransformer, X: np.ndarray) -> np.ndarray:
    parts: Any = readout.aggregation
    for encoder in parts.encoders:
        X = _attended(encoder.mab, X, X)
    X = _seeds(parts.pma, X)
    for decoder in parts.decoders:
        X = _attended(decoder.mab, X, X)
    return X.reshape(-1)


@formula.register
def _(readout: GraphMultisetTransformer, X: np.ndarray) -> np.ndarray:
    parts: Any = readout.aggregation
    X = _seeds(parts.pma1, X)
    for encoder in parts.encoders:
        X = _attended(encoder.mab, X, X)
    return _seeds(parts.pma2, X)[0]


@formula.register
def _(readout: Janossy, X: np.ndarray) -> np.ndarray:
    first, second, n = _linear(readout.first, X), _linear(readout.second, X), len(X)
    if n == 1:
        return _relu(first[0])
    pairs = _relu(first[:, None] + second).sum(axis=(0, 1)) - _relu(first + second).sum(axis=0)
    return pairs / (n * (n - 1))


@formula.register
def _(readout: GRU, X: np.ndarray) -> np.ndarray:
    layer: Any = readout.aggregation.gru
    h = 0 * X[0]
    for x in X:
        r, z, new = np.split(numbers(layer.weight_ih_l0) @ x + numbers(layer.bias_ih_l0), 3)
        r_again, z_again, again = np.split(numbers(layer.weight_hh_l0) @ h + numbers(layer.bias_hh_l0), 3)
        update = logistic(z + z_again)
        h = (1 - update) * hyperbolic_tangents(new + logistic(r + r_again) * again) + update * h
    return h


@formula.register
def _(readout: LSTM, X: np.ndarray) -> np.ndarray:
    layer: Any = readout.aggregation.lstm
    biases = numbers(layer.bias_ih_l0) + numbers(layer.bias_hh_l0)
    h = cell = 0 * X[0]
    for x in X:
        gates = numbers(layer.weight_ih_l0) @ x + numbers(layer.weight_hh_l0) @ h + biases
        let_in, forget, new, out = np.split(gates, 4)
        cell = logistic(forget) * cell + logistic(let_in) * hyperbolic_tangents(new)
        h = logistic(out) * hyperbolic_tangents(cell)
    return h


@formula.register
def _(readout: MLP, X: np.ndarray) -> np.ndarray:
    first, last = readout.aggregation.mlp.lins
    flat = np.append(X, np.full(readout.max_nodes * X.shape[1] - X.size, mpf(0)))
    return _linear(last, _relu(_linear(first, flat)))


def _relu(values: np.ndarray) -> np.ndarray:
    return np.maximum(values, mpf(0))


def _clamped(values: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(values, mpf(1e-4)), mpf(100))


def _deviation(X: np.ndarray) -> np.ndarray:
    variance = ((X - X.sum(axis=0) / len(X)) ** 2).sum(axis=0) / len(X)
    return np.array([mp.sqrt(value) if value > CUT else mpf(0) for value in variance], dtype=object)


def _power(value: Any, d: int) -> np.ndarray:
    """One number, or one per column."""
    return numbers(value.reshape(-1)) if isinstance(value, nn.Parameter) else np.full(d, mpf(value))


def _linear(layer: Any, X: np.ndarray) -> np.ndarray:
    layer = layer[0] if isinstance(layer, nn.Sequential) else layer
    product = X @ numbers(layer.weight).T
    return product if layer.bias is None else product + numbers(layer.bias)


def _seeds(pooling: Any, X: np.ndarray) -> np.ndarray:
    return _attended(pooling.mab, numbers(pooling.seed)[0], _relu(_linear(pooling.lin, X)))


def _attended(block: Any, Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """MAB(Q, K), no layer normalisation."""
    d, attention = Q.shape[1], block.attn
    weights, biases = numbers(attention.in_proj_weight), numbers(attention.in_proj_bias)
    q, k, v = (Y @ weights[i * d :][:d].T + biases[i * d :][:d] for i, Y in enumerate((Q, K, K)))
    heads = []
    for part in np.split(np.arange(d), attention.num_heads):
        scores = exponentials(q[:, part] @ k[:, part].T / mp.sqrt(len(part)))
        heads.append(scores @ v[:, part] / scores.sum(axis=1)[:, None])
    H = Q + _linear(attention.out_proj, np.concatenate(heads, axis=1))
    return H + _relu(_linear(block.lin, H))
