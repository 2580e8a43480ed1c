"""Options of readouts: common ones, and under a readout's name those of this readout alone."""

from inspect import signature
from typing import Any

from permlab.readouts.names import NAMES

Options = dict[str, Any]


def options_of(method: str, options: Options) -> Options:
    """The options of this readout: those under its name over the common ones."""
    groups = _groups(options)
    return {name: value for name, value in options.items() if name not in groups} | groups.get(_head(method), {})


def check_groups(options: Options, methods: list[str]) -> None:
    """A recipe for several readouts may be used for some of them, but what it says of the others must exist."""
    others = {name: group for name, group in _groups(options).items() if name not in map(_head, methods)}
    if not others:
        return
    from permlab.readouts.catalogue import CATALOGUE  # imports torch

    for name, group in others.items():
        known = list(signature(CATALOGUE[name]).parameters)
        if unknown := [option for option in group if option not in known]:
            raise ValueError(f"readout.{name}.{unknown[0]}: {name} has no such option; choose from {', '.join(known)}")


def _groups(options: Options) -> dict[str, Options]:
    return {name: value for name, value in options.items() if name in NAMES and isinstance(value, dict)}


def _head(method: str) -> str:
    return method.partition(",")[0]
