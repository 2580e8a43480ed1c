"""Which graphs a run trains on, chooses on and is tested on, by its settings."""

import numpy as np

from permlab.datasets.folds import published_split, scaffold_split, stratified_split
from permlab.datasets.splits import Split
from permlab.datasets.store import GraphStore
from permlab.platform.display.console import note
from permlab.platform.errors import ConfigError
from permlab.platform.settings.kinds import SCAFFOLD
from permlab.platform.settings.run import RunSettings


def split_of(store: GraphStore, settings: RunSettings) -> Split:
    """Train, validation and holdout; no part that is measured is empty.

    The seed chooses among the model-selection parts of a published fold, and draws the validation part of a stratified
    one; the holdouts of both are the same for all seeds.
    """
    data, seed = settings.data, settings.seed
    if data.splits is None:
        held_by = seed if data.split_seed is None else data.split_seed
        split = store.split(held_by, data.holdout, data.validation, seed)
    elif data.splits == SCAFFOLD:
        holdout = store.manifest.holdout if data.holdout is None else data.holdout
        split = scaffold_split(store.scaffolds(), holdout, data.validation)
    elif data.splits_file:
        split = published_split(data.splits_file, data.fold or 0, seed, len(store))
    else:
        drawn_by = data.split_seed or 0
        split = stratified_split(store.group, store.y, data.folds, data.fold or 0, data.validation, drawn_by, seed)
    for part in settings.splits_at_end:
        if not len(getattr(split, part.removesuffix("_perm"))):
            raise ConfigError(f"the {part} part is empty; set data.{part} to at least 1")
    return split


def check_labels(store: GraphStore, split: Split) -> None:
    """Refuse labels that are all the same in training: there is nothing to learn. Of several, some may be."""
    y = store.y[split.train].reshape(len(split.train), -1)
    low, high = (
        bound(np.where(np.isnan(y), other, y), axis=0) for bound, other in ((np.min, np.inf), (np.max, -np.inf))
    )
    constant = [(name, a) for name, a, b in zip(store.targets, low, high, strict=True) if a >= b]
    if not constant:
        return
    name, value = constant[0]
    what = f"is {value:g} for" if np.isfinite(value) else "is missing for"
    if len(constant) == len(store.targets):
        others = f", and so is each of the {len(constant)} targets" if len(constant) > 1 else ""
        raise ConfigError(
            f"the label {name!r} of {store.manifest.name} {what} all {len(split.train)} training graphs{others}: there "
            "is nothing to learn; choose another data.target or another split"
        )
    names = ", ".join(name for name, _ in constant[:5]) + (", …" if len(constant) > 5 else "")
    note(f"{len(constant)} of the {len(store.targets)} labels are the same for all training graphs: {names}")


def positive_weights(y: np.ndarray) -> tuple[float, ...]:
    """Negatives / positives of every label in [G] or [G, T], NaN where missing; 1 where either is absent."""
    columns = y.reshape(len(y), -1)
    positive, negative = (columns == 1).sum(axis=0), (columns == 0).sum(axis=0)
    balanced = np.where((positive > 0) & (negative > 0), negative / np.maximum(positive, 1), 1.0)
    return tuple(balanced.tolist())
