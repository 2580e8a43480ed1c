"""Protocols: ways to make results that a reviewer trusts. One fills in the settings that were not given, and refuses
those that break it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from permlab.platform.settings.kinds import SCAFFOLD, STRATIFIED

if TYPE_CHECKING:
    from permlab.platform.settings.sweep import SweepSettings

Tree = dict[str, Any]


@dataclass(frozen=True)
class Protocol:
    """`fill` adds to a tree of settings; `misfit` says what breaks the protocol; `told` is for the report."""

    fill: Callable[[Tree], None]
    misfit: Callable[["SweepSettings"], str]
    told: str


def with_protocol(tree: Mapping[str, Any]) -> Tree:
    """The settings as given, and those of the protocol that they name."""
    filled = {key: value.model_dump() if isinstance(value, BaseModel) else value for key, value in tree.items()}
    protocol = PROTOCOLS.get(str(filled.get("protocol")))
    if protocol:
        for group in ("data", "train"):
            filled[group] = dict(filled.get(group) or {})
        protocol.fill(filled)
    return filled


def _errica(tree: Tree) -> None:
    data = tree["data"]
    _set(tree, seed=[0, 1, 2])
    _set(data, splits=f"{STRATIFIED}10", test=True)
    _choose_the_epoch(tree)
    if not tree.get("tuned") and isinstance(tree.setdefault("tune", {}), dict):
        tree["tune"] = {"baseline": False} | tree["tune"]


def _ogb(tree: Tree) -> None:
    data = tree["data"]
    _set(tree, seed=list(range(10)))
    _set(data, splits=SCAFFOLD, test=True)
    if data["splits"] == SCAFFOLD:
        _set(data, holdout=0.1)
    _choose_the_epoch(tree)


def _choose_the_epoch(tree: Tree) -> None:
    """On the validation part of a tenth, unless a file of folds has one. With as much patience as there are epochs
    training never stops early, and ends with its best weights.
    """
    train, data = tree["train"], tree["data"]
    if not str(data["splits"]).endswith(".json"):
        _set(data, validation=0.1)
    _set(train, patience=train.get("epochs", 300))


def _set(tree: Tree, **defaults: Any) -> None:
    for name, value in defaults.items():
        if tree.get(name) is None:
            tree[name] = value


def _no_nested_validation(settings: "SweepSettings") -> str:
    if not settings.data.has_folds:
        return "needs folds: set data.splits to a file of folds or to stratified:K"
    if not settings.data.validated:
        return "needs a validation part: set data.validation"
    return "" if settings.data.test else "measures the test folds: leave out data.test=false"


def _no_fixed_split(settings: "SweepSettings") -> str:
    if settings.data.has_folds and settings.data.fold is None and settings.data.folds > 1:
        return f"has one fixed split, but data.splits={settings.data.splits} has several: choose one with data.fold"
    if settings.data.fold and len(settings.data.fold) > 1:
        return "has one fixed split; give data.fold one value"
    if not settings.data.validated:
        return "needs a validation part, which chooses the epoch: set data.validation"
    return "" if settings.data.test else "measures the holdout: leave out data.test=false"


PROTOCOLS = {
    "errica": Protocol(
        _errica,
        _no_nested_validation,
        "Nested cross-validation, as in “A Fair Comparison of Graph Neural Networks” (Errica and others, 2020): for "
        "every outer fold each method was tuned with the same budget on the fold's model-selection part, then trained "
        "again with every seed; the validation part chose the epoch. A test fold was read once per run, with the final "
        "weights. A number is the mean over folds of the mean over a fold's runs.",
    ),
    "ogb": Protocol(
        _ogb,
        _no_fixed_split,
        "One fixed split, as on OGB's leaderboards: in every run the validation part chose the epoch, and the holdout "
        "was read once, with these weights. A number is the mean over seeds.",
    ),
}
