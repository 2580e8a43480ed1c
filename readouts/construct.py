"""Call somebody's constructor by the names of its arguments: what is known is filled in, the rest are options."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from inspect import Parameter, signature
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from permlab.readouts.errors import said

Known = Mapping[str, Any]


def construct(
    name: str,
    made_by: type,
    options: Known,
    error: type[ValueError],
    *,
    fixed: Known | None = None,
    usual: Known | None = None,
    if_needed: Known | None = None,
) -> Any:
    """`made_by(…)`, or an `error` of one line that shows how it is called.

    fixed      filled in where the constructor takes them; no option may change them
    usual      filled in where the constructor takes them, unless an option says otherwise
    if_needed  filled in where an argument without a default would be missing
    """
    try:
        taken = signature(made_by).parameters
    except ValueError:  # of some types that are written in C
        raise error(f"{name} does not say which arguments it takes") from None
    anything = any(argument.kind == Parameter.VAR_KEYWORD for argument in taken.values())
    own = {key: value for key, value in (fixed or {}).items() if key in taken}
    named = [key for key, argument in taken.items() if argument.kind in _NAMED]
    if wrong := [option for option in options if option in own or not (option in named or anything)]:
        choices = [key for key in named if key not in own]
        listed = f"choose from {', '.join(choices)}" if choices else "it takes none"
        raise error(f"{name} has no option {wrong[0]!r}: {listed}")
    given = {key: value for key, value in (usual or {}).items() if key in taken} | own | dict(options)
    needed = [key for key in named if taken[key].default is Parameter.empty and key not in given]
    given |= {key: (if_needed or {})[key] for key in needed if key in (if_needed or {})}
    if missing := [key for key in needed if key not in given]:
        raise error(f"{name} needs {', '.join(missing)}: name it as an option; {_call(name, made_by)}")
    try:
        return made_by(**given)
    except error:
        raise
    except (Exception, SystemExit) as raised:
        raise error(f"{name} cannot be built: {said(raised)}; {_call(name, made_by)}") from raised


def made_by_name(name: str, value: Any, options: Known, error: type[ValueError], **filled: Known) -> Any:
    """What a name stands for: an object of a class, see `construct`; a function; or a copy of an object."""
    if isinstance(value, type):
        return construct(name, value, options, error, **filled)
    if options:
        raise error(f"{name} is an object that is built already; it takes no option {min(options)!r}")
    return deepcopy(value)


@contextmanager
def dry_run(module: nn.Module) -> Iterator[nn.Module]:
    """The module in evaluation mode, without gradients; its mode and the random state are put back afterwards.

    Lazy weights are drawn here: from the random numbers of the caller, as other weights are.
    """
    training, lazy = module.training, any(is_lazy(weight) for weight in module.parameters())
    with torch.random.fork_rng(devices=[], enabled=not lazy), torch.no_grad():
        try:
            yield module.eval()
        finally:
            module.train(training)


@contextmanager
def weights_of(seed: int) -> Iterator[None]:
    """Weights that are drawn inside depend on the seed alone; the random state is put back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def _call(name: str, made_by: type) -> str:
    """`it is called as MyReadout(in_channels, width=3)`."""
    stars: dict[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
    parts = [
        stars.get(argument.kind, "") + (key if argument.default is Parameter.empty else f"{key}={argument.default!r}")
        for key, argument in signature(made_by).parameters.items()
    ]
    return f"it is called as {name}({', '.join(parts)})"
