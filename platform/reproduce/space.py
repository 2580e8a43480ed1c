"""What the paper leaves open, as a search space: common settings, and options of single readouts. Bias and the ReLU
after Γ's last layer are searched too: there our default departs from the paper's formula.

The options stand in the space under their readout: `kernels.readout.kernels`.
"""

from dataclasses import replace
from inspect import signature
from typing import Any

from permlab.platform.errors import ConfigError
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.tuning.space import Space, check_options, parse_space, scope_of
from permlab.platform.tuning.space import defaults as common_defaults
from permlab.readouts.catalogue import CATALOGUE

DEFAULT: dict[str, Any] = {
    "train.optimizer": {"choices": ["adam", "adamw", "sgd", "momentum"]},
    "train.learning_rate": {"low": 1e-5, "high": 1e-1, "log": True},
    "train.weight_decay": {"choices": [0.0, 1e-5, 1e-4, 1e-3, 1e-2]},
    "model.dropout": {"low": 0.0, "high": 0.5},
    "model.norm": {"choices": ["none", "batch", "layer"]},
    "model.feature_scaling": {"choices": ["none", "standard", "minmax"]},
    "model.init": {"choices": ["default", "glorot", "he", "normal", "uniform", "kipf"]},
    "model.last_activation": {"choices": ["none", "relu"]},
    "model.bias": {"choices": [True, False]},
    "kernels.readout.kernels": {"low": 10, "high": 500, "log": True},
    "set2set.readout.steps": {"low": 1, "high": 8},
}


def joint_space(settings: SweepSettings, tree: dict[str, Any], max_nodes: int) -> Space:
    """One space for all methods of the grid."""
    try:
        space = parse_space(tree)
        for cell in settings.model_copy(update={"seed": settings.seed[:1]}).cells():
            for field, parameter in parse_space(tree, cell.method).items():
                if parameter != space.get(field):
                    name = f"{cell.method}.{field}"
                    if not field.startswith("readout."):
                        raise ConfigError(f"tune.space.{name}: under a readout only its own options can be searched")
                    check_options(cell, {field: parameter}, max_nodes)
                    space[name] = replace(parameter, field=name)
    except ValueError as error:
        raise ConfigError(f"tune.space: {error}") from None
    if not space:
        raise ConfigError("tune.space names nothing to search for these methods")
    return space


def defaults(settings: SweepSettings, space: Space) -> dict[str, Any]:
    """What the fields of the space are in these settings, where that lies in the space."""
    values = common_defaults(settings.cells()[0], {name: p for name, p in space.items() if not scope_of(name)[0]})
    for name, parameter in space.items():
        method, field = scope_of(name)
        if method:
            option = field.removeprefix("readout.")
            given = next(cell.readout for cell in settings.cells() if cell.method == method)
            value = given.get(option, signature(CATALOGUE[method]).parameters[option].default)
            values |= {name: value} if parameter.contains(value) else {}
    return values


def with_values(settings: SweepSettings, values: dict[str, Any]) -> SweepSettings:
    """The grid with these values in all its cells."""
    tree = settings.model_dump()
    for name, value in values.items():
        method, field = scope_of(name)
        group, _, option = field.partition(".")
        target = tree[group].setdefault(method, {}) if method else tree[group]
        target[option] = value
    return type(settings).model_validate(tree)
