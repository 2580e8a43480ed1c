"""Parameters in one array, and torch's optimisers on it: one pass over memory instead of one call per tensor.

While the engine trains, the parameters and the optimiser's state are views of these arrays, so torch can read, save and
load both at any time between two calls.
"""

from typing import Any

import numpy as np
import torch
from torch import nn

from permlab.tasks.engine.compiled import compiled
from permlab.tasks.engine.room import aligned

OPTIMISERS = ("adam", "adamw", "sgd")  # whose steps `FlatOptimiser` takes
_LINE = 16  # floats: every parameter begins at a cache line


class FlatParameters:
    """`values` and `gradients` of all parameters, [total] each; `of(p)` gives the two views of one parameter."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters = parameters
        ends = np.cumsum([-(-each.numel() // _LINE) * _LINE for each in parameters])
        self.slices = [
            slice(int(end), int(end) + each.numel()) for end, each in zip([0, *ends], parameters, strict=False)
        ]
        self.values, self.gradients = (aligned(int(ends[-1])) for _ in range(2))
        self.values[:], self.gradients[:] = 0, 0
        for parameter, view in zip(parameters, self.views(self.values), strict=True):
            view[...] = parameter.detach().numpy()
            parameter.data = torch.from_numpy(view)
        self._gradients = dict(zip(map(id, parameters), self.views(self.gradients), strict=True))

    def views(self, flat: np.ndarray) -> list[np.ndarray]:
        return [flat[part].reshape(each.shape) for part, each in zip(self.slices, self.parameters, strict=True)]

    def of(self, parameter: nn.Parameter) -> tuple[np.ndarray, np.ndarray]:
        return parameter.detach().numpy(), self._gradients[id(parameter)]

    def release(self) -> None:
        """Gives the parameters their own memory again."""
        for parameter in self.parameters:
            parameter.data = parameter.data.clone()


@compiled
def _adam(
    p: np.ndarray,
    g: np.ndarray,
    m: np.ndarray,
    v: np.ndarray,
    rate: float,
    root: float,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    shrink: float,
) -> None:
    """m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², p ← p − rate · m / (√v / root + ε); decay · p is added to g first."""
    a, b, step, base, tiny = (
        np.float32(1 - beta1),
        np.float32(beta2),
        np.float32(rate),
        np.float32(root),
        np.float32(eps),
    )
    c, penalty, left = np.float32(1 - beta2), np.float32(decay), np.float32(1 - shrink)
    for i in range(len(p)):
        value = p[i] * left
        grad = g[i] + penalty * value
        mean = m[i] + a * (grad - m[i])
        square = b * v[i] + c * grad * grad
        p[i] = value - step * mean / (np.sqrt(square) / base + tiny)
        m[i], v[i] = mean, square


@compiled
def _descend(p: np.ndarray, g: np.ndarray, rate: float, decay: float) -> None:
    step, penalty = np.float32(rate), np.float32(decay)
    for i in range(len(p)):
        p[i] -= step * (g[i] + penalty * p[i])


class FlatOptimiser:
    """Takes the steps of a torch Adam, AdamW or SGD with one group over `flat`'s parameters."""

    def __init__(self, optimizer: torch.optim.Optimizer, flat: FlatParameters) -> None:
        self.optimizer, self.flat, self.count = optimizer, flat, 0
        self.mean, self.square = (aligned(len(flat.values)) for _ in range(2))
        self.mean[:], self.square[:] = 0, 0
        if not isinstance(optimizer, torch.optim.SGD):
            self._adopt()

    def _adopt(self) -> None:
        """Makes the state of every parameter a view of ours, keeping its values."""
        for parameter, mean, square in zip(
            self.flat.parameters, self.flat.views(self.mean), self.flat.views(self.square), strict=True
        ):
            state: dict[str, Any] = self.optimizer.state[parameter]
            for name, view in (("exp_avg", mean), ("exp_avg_sq", square)):
                if name in state:
                    view[...] = state[name].numpy()
                state[name] = torch.from_numpy(view)
            self.count = int(state.get("step", 0))
            state["step"] = torch.tensor(float(self.count))

    def step(self) -> None:
        group: dict[str, Any] = self.optimizer.param_groups[0]
        rate, decay, flat = float(group["lr"]), group["weight_decay"], self.flat
        if isinstance(self.optimizer, torch.optim.SGD):
            _descend(flat.values, flat.gradients, rate, decay)
            return
        self.count += 1
        beta1, beta2 = group["betas"]
        decoupled = isinstance(self.optimizer, torch.optim.AdamW)
        _adam(
            flat.values,
            flat.gradients,
            self.mean,
            self.square,
            rate / (1 - beta1**self.count),
            (1 - beta2**self.count) ** 0.5,
            beta1,
            beta2,
            group["eps"],
            0.0 if decoupled else decay,
            rate * decay if decoupled else 0.0,
        )

    def settle(self) -> None:
        """Updates torch's own count of steps, for a state that is saved now."""
        for parameter in self.flat.parameters:
            if "step" in self.optimizer.state[parameter]:
                self.optimizer.state[parameter]["step"].fill_(self.count)
