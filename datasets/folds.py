"""Splits that are not drawn at random: published folds, scaffolds of molecules, stratified folds.

A file of published folds is a JSON list, one entry per outer fold, as "A Fair Comparison of Graph Neural Networks" has
it: {"test": […], "model_selection": [{"train": […], "validation": […]}, …]}, positions of graphs in the data set.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from permlab.datasets.errors import DataUsageError
from permlab.datasets.randomness import derive_seed, random_order
from permlab.datasets.splits import Split, size_of

_FOLDS, _VALIDATION, _OFFSET = 3, 4, 5  # entropy: one number per use of the seed
FORMAT = 'a list of {"test": […], "model_selection": [{"train": […], "validation": […]}, …]}'
_received: dict[str, bytes] = {}


class Fold(NamedTuple):
    """Positions of graphs: the test fold, and (train, validation) of every model-selection part."""

    test: np.ndarray
    parts: list[tuple[np.ndarray, np.ndarray]]


def receive(path: str, content: bytes) -> None:
    """From now on, this is the content of the file of folds at `path`: it came with a task, from another node."""
    _received[path] = content


def content_of(path: str) -> bytes:
    if path in _received:
        return _received[path]
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise DataUsageError(
            f"there is no file {path}, nor one of its name in the folder splits of PERMLAB_MIRROR"
        ) from None
    except OSError as error:
        raise DataUsageError(f"{path} cannot be read: {(error.strerror or '').lower()}") from None


def digest_of(path: str) -> str:
    return hashlib.sha256(content_of(path)).hexdigest()


def read_folds(path: str) -> list[Fold]:
    try:
        return _parsed(content_of(path))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataUsageError(f"{path} does not hold folds: {FORMAT}, positions counted from 0") from None


@lru_cache(maxsize=8)
def _parsed(content: bytes) -> list[Fold]:
    document = json.loads(content)
    if not isinstance(document, list) or not document:
        raise ValueError("no folds")
    return [_fold(entry) for entry in document]


def _fold(entry: dict[str, Any]) -> Fold:
    parts = [(_positions(part["train"]), _positions(part["validation"])) for part in entry["model_selection"]]
    if not parts:
        raise ValueError("no parts")
    return Fold(_positions(entry["test"]), parts)


def _positions(values: Any) -> np.ndarray:
    if not values or any(type(value) is not int for value in values):
        raise ValueError("not whole numbers")
    return np.sort(np.array(values, dtype=np.int64))


def published_split(path: str, number: int, part: int, graphs: int) -> Split:
    """Fold `number` of the file, with its model-selection part `part` (modulo their count). In it every one of the
    `graphs` has exactly one place.
    """
    folds = read_folds(path)
    if not 0 <= number < len(folds):
        raise DataUsageError(f"data.fold={number}: {path} has {len(folds)} folds, 0 to {len(folds) - 1}")
    fold = folds[number]
    train, validation = fold.parts[part % len(fold.parts)]
    split = Split(train, validation, fold.test)
    everything, where = np.concatenate(split), f"{path}, fold {number}"
    if everything.min() < 0 or everything.max() >= graphs:
        wrong = everything.min() if everything.min() < 0 else everything.max()
        raise DataUsageError(f"{where} names graph {wrong}; the data set has {graphs}, 0 to {graphs - 1}")
    times = np.bincount(everything, minlength=graphs)
    if (times > 1).any():
        graph = int(np.argmax(times > 1))
        names = [name for name, part in zip(("train", "validation", "test"), split, strict=True) if graph in part]
        places = " and ".join(names) if len(names) > 1 else f"{names[0]} twice"
        raise DataUsageError(f"{where} has overlapping parts: graph {graph} is in {places} ({_count(times > 1)})")
    if (times == 0).any():
        raise DataUsageError(
            f"{where} leaves out graph {int(np.argmin(times))} ({_count(times == 0)} of {graphs}); every graph must be "
            "in test, train or validation"
        )
    return split


def _count(which: np.ndarray) -> str:
    return f"{int(which.sum())} such graph{'s' * (int(which.sum()) > 1)}"


def scaffold_split(scaffolds: Sequence[str], holdout: int | float, validation: int | float) -> Split:
    """The scaffold split of MoleculeNet and OGB: molecules of one scaffold stay together; sizes are of all graphs.

    Scaffolds in descending order of (number of molecules, first molecule); each goes to train if it fits there, else to
    validation if it fits there, else to the holdout. So the holdout has the rare scaffolds.
    """
    graphs = len(scaffolds)
    held, validated = size_of("holdout", holdout, graphs), size_of("validation", validation, graphs)
    members: dict[str, list[int]] = defaultdict(list)
    for graph, scaffold in enumerate(scaffolds):
        members[scaffold].append(graph)
    train: list[int] = []
    inner: list[int] = []
    outer: list[int] = []
    for group in sorted(members.values(), key=lambda group: (len(group), group[0]), reverse=True):
        if len(train) + len(group) <= graphs - held - validated:
            train += group
        elif len(train) + len(inner) + len(group) <= graphs - held:
            inner += group
        else:
            outer += group
    if not train:
        raise DataUsageError(
            f"no scaffold has few enough molecules to train on {graphs - held - validated} of {graphs}: the smallest "
            f"has {min(map(len, members.values()))}; choose another split"
        )
    return Split(*(np.array(sorted(part), dtype=np.int64) for part in (train, inner, outer)))


def stratified_split(
    group: np.ndarray, y: np.ndarray, folds: int, fold: int, validation: int | float, seed: int, validation_seed: int
) -> Split:
    """Fold `fold` of `folds` as the holdout, and of the rest a validation part, both with labels like the whole.

    Groups, in the order of their labels, are dealt to the folds in turn; of several labels the mean counts.
    """
    if not 0 <= fold < folds:
        raise DataUsageError(f"data.fold={fold}: there are {folds} folds, 0 to {folds - 1}")
    unit, member, sizes = np.unique(group, return_inverse=True, return_counts=True)
    if len(unit) < folds:
        raise DataUsageError(f"stratified:{folds} asks for {folds} folds of {len(unit)} different graphs")
    order = _by_label(member, sizes, y, seed, _FOLDS)
    dealt = np.empty(len(unit), dtype=np.int64)
    dealt[order] = random_order(folds, seed, _FOLDS)[np.arange(len(unit)) % folds]
    rest = order[dealt[order] != fold]
    size = size_of("validation", validation, int(sizes[rest].sum()))
    shuffled = _by_label(member, sizes, y, validation_seed, _VALIDATION)
    inner = _evenly(shuffled, dealt != fold, sizes, size, validation_seed)
    held = dealt == fold
    return Split(*(np.flatnonzero(part[member]) for part in (~held & ~inner, inner, held)))


def _by_label(member: np.ndarray, sizes: np.ndarray, y: np.ndarray, *entropy: int) -> np.ndarray:
    """The groups [U] in ascending order of their mean label, equal ones in random order; without a label last."""
    columns = y.reshape(len(y), -1)
    known = ~np.isnan(columns)
    mean = np.where(known, columns, 0).sum(axis=1) / np.where(known.any(axis=1), known.sum(axis=1), np.nan)
    of_group = np.bincount(member, weights=mean, minlength=len(sizes)) / sizes
    shuffled = random_order(len(sizes), *entropy)
    return shuffled[np.argsort(of_group[shuffled], kind="stable")]


def _evenly(order: np.ndarray, allowed: np.ndarray, sizes: np.ndarray, count: int, seed: int) -> np.ndarray:
    """About `count` graphs in whole groups, evenly spread over the order: which groups [U]. Exact if all groups are
    single graphs.
    """
    ordered = order[allowed[order]]
    ends = np.cumsum(sizes[ordered])
    chosen = np.zeros(len(sizes), dtype=bool)
    if count:
        offset = derive_seed(seed, _OFFSET) % int(ends[-1])
        marks = (ends * count + offset) // int(ends[-1])  # how many of the evenly spaced marks each group passes
        chosen[ordered] = np.diff(marks, prepend=offset // int(ends[-1])) > 0
    return chosen
