"""A recipe as YAML: what is searched, and what the paper fixes. `permlab sweep` and `permlab train` read it."""

from pathlib import Path
from typing import Any

import yaml

from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.tuning.space import scope_of

FIXED = {"train": ("epochs", "batch_size")}  # named by the paper


def recipe_tree(sweep: SweepSettings, searched: list[str]) -> dict[str, Any]:
    """The data set and, of the settings, those that were searched and those that the paper names."""
    every = sweep.model_dump(mode="json")
    tree: dict[str, Any] = {"dataset": sweep.dataset[0]}
    tree |= {group: {name: every[group][name] for name in names} for group, names in FIXED.items()}
    for name in searched:
        method, field = scope_of(name)
        group, _, option = field.partition(".")
        source, target = every[group], tree.setdefault(group, {})
        if method:
            source, target = source.get(method, {}), target.setdefault(method, {})
        if option in source:
            target[option] = source[option]
    return tree


def write_recipe(path: Path, sweep: SweepSettings, searched: list[str], comments: list[str]) -> None:
    lines = [f"# {comment}" for comment in comments]
    text = yaml.safe_dump(recipe_tree(sweep, searched), sort_keys=False, allow_unicode=True)
    path.write_text("\n".join([*lines, text]))
