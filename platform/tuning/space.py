"""A search space: which settings are tuned, and their ranges. Checked completely before anything runs."""

import difflib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from permlab.platform.errors import ConfigError
from permlab.platform.settings.run import ModelSettings, RunSettings, TrainSettings
from permlab.readouts.names import NAMES

# How a trial is measured must not depend on the values it tries: the number of epochs is part of the budget.
# Patience needs a validation part, which the sweep that follows does not have.
FIXED = {"epochs", "eval_every", "checkpoint_every", "profile", "fast_dev_run", "overfit_batches", "engine"}
FIXED |= {"patience", "callbacks", "backbone"}  # a backbone may be code, which a stored choice must not load
GROUPS: dict[str, type[BaseModel]] = {"model": ModelSettings, "train": TrainSettings}
FIELDS = [f"{group}.{name}" for group, model in GROUPS.items() for name in model.model_fields if name not in FIXED]
OPTIONS = ("readout.", "backbone.")  # of the readout and of Γ
RANGE, CHOICES = {"low", "high", "log", "step"}, {"choices"}
Number = int | float


@dataclass(frozen=True)
class Parameter:
    """One tuned setting: `choices`, or the numbers from `low` to `high`."""

    field: str
    choices: tuple[Any, ...] = ()
    low: Number = 0
    high: Number = 0
    log: bool = False
    step: Number | None = None

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def ends(self) -> tuple[Any, ...]:
        return self.choices or (self.low, self.high)

    def contains(self, value: Any) -> bool:
        if self.choices:
            return value in self.choices
        if not isinstance(value, int | float) or isinstance(value, bool) or not self.low <= value <= self.high:
            return False
        return self.step is None or math.isclose((value - self.low) % self.step, 0, abs_tol=1e-12)

    @property
    def document(self) -> dict[str, Any]:
        """As it is written in YAML."""
        if self.choices:
            return {"choices": list(self.choices)}
        options = ({"log": True} if self.log else {}) | ({"step": self.step} if self.step is not None else {})
        return {"low": self.low, "high": self.high} | options


Space = dict[str, Parameter]


def parse_space(tree: dict[str, Any], method: str | None = None) -> Space:
    """The space for `method`: the common entries, overridden by those under its name. Raises ValueError."""
    common: Space = {}
    own: Space = {}
    for path, spec in _leaves(tree):
        scope, field = scope_of(path)
        parameter = _parameter(field, spec, path)
        if not scope:
            common[field] = parameter
        elif method and scope in (method, method.partition(",")[0]):
            own[field] = parameter
    return common | own


def scope_of(path: str) -> tuple[str, str]:
    """The readout that a key stands under, empty for all, and the field: mine.py:Mine.readout.width has both."""
    first, _, rest = path.partition(".")
    if first in NAMES:
        return first, rest
    under = re.match(rf"(.+?)\.((?:{'|'.join([*GROUPS, 'readout', 'backbone'])})\..+)", path)
    return (under[1], under[2]) if under and ":" in under[1] else ("", path)


def _leaves(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and nested groups mean the same."""
    for key, value in tree.items():
        if isinstance(value, dict) and not (value.keys() & (RANGE | CHOICES)):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _parameter(field: str, spec: Any, path: str) -> Parameter:
    if field not in FIELDS and not (field.startswith(OPTIONS) and field.count(".") == 1):
        near = difflib.get_close_matches(field, FIELDS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        choices = ", ".join([*FIELDS, *(f"{group}OPTION" for group in OPTIONS)])
        raise ValueError(f"{path} cannot be tuned: {hint}choose from {choices}")
    if isinstance(spec, list):
        spec = {"choices": spec}
    if not isinstance(spec, dict) or not (set(spec) <= CHOICES or {"low", "high"} <= set(spec) <= RANGE):
        raise ValueError(f"{path}: give low and high (and log, step), or choices; got {spec}")
    parameter = _choices(field, spec["choices"], path) if "choices" in spec else _range(field, spec, path)
    for value in parameter.ends:
        _check_value(field, value, path)
    return parameter


def _choices(field: str, values: Any, path: str) -> Parameter:
    if not isinstance(values, list) or not values:
        raise ValueError(f"{path}: choices must be a list of values, got {values}")
    values = [_number(value) if _kind(field) in (int, float) else value for value in values]
    for value in values:
        if not isinstance(value, str | int | float | bool | NoneType):
            raise ValueError(f"{path}: the choice {value} is neither a number nor a word")
    return Parameter(field, choices=tuple(values))


def _range(field: str, spec: dict[str, Any], path: str) -> Parameter:
    low, high, step = (_number(spec.get(name)) for name in ("low", "high", "step"))
    log = spec.get("log", False)
    for name, value in (("low", low), ("high", high), ("step", step)):
        if not isinstance(value, int | float | NoneType) or isinstance(value, bool):
            raise ValueError(f"{path}: {name}={value} is not a number")
    if not isinstance(log, bool):
        raise ValueError(f"{path}: log={log} is neither true nor false")
    if _kind(field) is float:
        low, high = float(low), float(high)
    elif _kind(field) not in (int, None):
        raise ValueError(f"{path} is not a number; give choices")
    if not low < high:
        raise ValueError(f"{path}: low={low} is not below high={high}")
    if log and low <= 0:
        raise ValueError(f"{path}: low={low} has no logarithm; choose more than 0, or log: false")
    if step is not None and (log or step <= 0):
        raise ValueError(f"{path}: step={step} must be positive, and cannot be combined with log")
    return Parameter(field, low=low, high=high, log=log, step=step)


def _number(value: Any) -> Any:
    """YAML 1.1 reads 1e-4 as text."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _kind(field: str) -> type | None:
    """int, float, str or bool; None for an option, whose type the constructor knows."""
    group, _, name = field.partition(".")
    if f"{group}." in OPTIONS:
        return None
    annotation = GROUPS[group].model_fields[name].annotation
    kinds = {type(value) if not isinstance(value, type) else value for value in get_args(annotation) or (annotation,)}
    return next((kind for kind in (bool, int, float) if kind in kinds), str)


def _check_value(field: str, value: Any, path: str) -> None:
    group, _, name = field.partition(".")
    if group in GROUPS:
        if isinstance(value, bool) and _kind(field) is not bool:
            raise ValueError(f"{path}: {value} has the wrong type")
        try:
            GROUPS[group].model_validate({name: value})
        except ValidationError as error:
            raise ValueError(f"{path}: {value}: {error.errors()[0]['msg'].lower()}") from None


def check_options(settings: RunSettings, space: Space, max_nodes: int) -> None:
    """Check the readout's options by building it with the ends of each; needs torch, so only if there are any."""
    options = [parameter for parameter in space.values() if parameter.field.startswith("readout.")]
    if not options:
        return
    from permlab.platform.plugins.resolve import readout_named
    from permlab.readouts.catalogue import build
    from permlab.readouts.errors import ReadoutError

    readout, carried = readout_named(settings.method)
    for parameter in options:
        name = parameter.field.removeprefix("readout.")
        for value in parameter.ends:
            try:
                build(readout, settings.d, max_nodes, **(carried | settings.readout | {name: value}))
            except (ReadoutError, TypeError, ValueError) as error:
                raise ConfigError(f"tune.space.{parameter.field}={value}: {error}") from None


def with_values(settings: RunSettings, values: dict[str, Any]) -> RunSettings:
    """The settings with these dotted keys replaced."""
    tree = settings.model_dump()
    for field, value in values.items():
        group, _, name = field.partition(".")
        tree[group][name] = value
    return RunSettings.model_validate(tree)


def defaults(settings: RunSettings, space: Space) -> dict[str, Any]:
    """The current values of the tuned fields, where they lie in the space."""
    tree = settings.model_dump()
    values = {}
    for field, parameter in space.items():
        group, _, name = field.partition(".")
        if name in tree[group] and parameter.contains(tree[group][name]):
            values[field] = tree[group][name]
    return values
