"""From a name to the object: a readout, a backbone, an objective, a loss, a metric, a callback. Imports torch and PyG.

Built-in names belong to the rooms that have them; here are the other ways.
"""

from difflib import get_close_matches
from types import ModuleType
from typing import Any

import pytorch_lightning as pl
import torch
import torch_geometric.nn
import torch_geometric.nn.aggr
import torchmetrics

from permlab.platform.errors import ConfigError, SettingError
from permlab.platform.plugins.code import load, loaded
from permlab.platform.plugins.names import PYG, entry_code, entry_names, is_code, parse
from permlab.readouts.catalogue import ReadoutLike
from permlab.readouts.construct import made_by_name
from permlab.readouts.names import METHODS
from permlab.tasks.backbones import BACKBONES
from permlab.tasks.errors import ObjectiveError
from permlab.tasks.metrics import snake_case

Resolved = tuple[Any, dict[str, Any]]  # the object, and the options that its name carries


def readout_named(method: str) -> tuple[ReadoutLike, dict[str, Any]]:
    """What `readouts.catalogue.build` takes."""
    readout = _named(method, "readouts", METHODS, torch_geometric.nn.aggr)
    return _checked(method, readout, METHODS, torch_geometric.nn.aggr.Aggregation)


def backbone_named(backbone: str) -> Resolved:
    """What `tasks.backbones.build_backbone` takes."""
    module = _named(backbone, "backbones", BACKBONES, torch_geometric.nn.models, torch_geometric.nn)
    return _checked(backbone, module, BACKBONES, torch.nn.Module)


def _named(text: str, group: str, built_in: Any, *pyg: ModuleType) -> Resolved:
    named = parse(text)
    if named.head in built_in:
        return named.head, named.options
    return resolved(named.head, group, *pyg), named.options


def _checked(text: str, choice: Resolved, built_in: Any, kind: type) -> Resolved:
    """Refuse what is neither built in, nor a class, nor an object of this kind. What a class makes is checked later."""
    head, value = parse(text).head, choice[0]
    if head not in built_in and not isinstance(value, type | kind):
        raise ConfigError(
            f"{head} is {value!r:.80}, neither a class nor an object of {kind.__module__}.{kind.__name__}"
        )
    return choice


def resolved(head: str, group: str, *pyg: ModuleType) -> Any:
    """What a name that is not built in stands for."""
    if is_code(head):
        return loaded(head).value
    if head.startswith(PYG):
        return _of_pyg(head.removeprefix(PYG), pyg)
    if head in entry_names(group):
        return load(entry_code(head, group)).value
    raise ConfigError(f"unknown name {head!r}")


def _of_pyg(name: str, modules: tuple[ModuleType, ...]) -> Any:
    for module in modules:
        value = getattr(module, name, None)
        if isinstance(value, type):
            return value
    known = [key for module in modules for key in dir(module) if isinstance(getattr(module, key), type)]
    near = get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(PYG + each for each in near)}?" if near else "PyG has no such class here"
    raise ConfigError(f"unknown name {PYG + name!r}: {hint}")


def metric_named(text: str) -> tuple[str, Any]:
    """What `choose_objective` takes of a metric: its name, and an object or the options of TorchMetrics' class."""
    named = parse(text)
    if named.head.isidentifier() and named.head not in entry_names("metrics"):
        return named.head, named.options
    value = resolved(named.head, "metrics", torchmetrics)
    metric = made_by_name(named.head, value, named.options, ObjectiveError)
    return snake_case(type(metric).__name__), metric


def callbacks_named(texts: list[str]) -> list[pl.Callback]:
    """A new callback for each name."""
    made = []
    for text in texts:
        named = parse(text)
        callback = made_by_name(text, loaded(named.head).value, named.options, SettingError)
        if not isinstance(callback, pl.Callback):
            raise ConfigError(f"{text} is a {type(callback).__name__}, not a pytorch_lightning.Callback")
        made.append(callback)
    return made
